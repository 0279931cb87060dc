/** Checks that turn JSON of unknown origin into typed values, or say where it is damaged. */

/** What nests deeper is no report of ours, and would exhaust the stack. */
const MAX_DEPTH = 200;

/** Thrown by a check; `parseReport` is where it ends. */
export class DamagedError extends Error {}

/** The place of a value: its path, and how deep it is. */
export interface IPlace {
  path: string;
  depth: number;
}

/** Gives the value back as `T`, made anew, or throws a `DamagedError`. */
export type Check<T> = (value: unknown, place: IPlace) => T;

type Fields<T> = { [K in keyof T]-?: Check<T[K]> };

function damaged(value: unknown, place: IPlace): never {
  const text = value === undefined ? 'missing' : (JSON.stringify(value) ?? typeof value);
  throw new DamagedError(`${place.path.slice(0, 80)} is ${text.slice(0, 80)}`);
}

function below(place: IPlace, key: string | number): IPlace {
  if (place.depth >= MAX_DEPTH) {
    throw new DamagedError(`${place.path.slice(0, 80)} nests too deeply`);
  }
  const path = typeof key === 'number' ? `${place.path}[${key}]` : `${place.path}.${key}`;
  return { path, depth: place.depth + 1 };
}

export const text: Check<string> = (value, place) =>
  typeof value === 'string' ? value : damaged(value, place);

export const flag: Check<boolean> = (value, place) =>
  typeof value === 'boolean' ? value : damaged(value, place);

export const number: Check<number> = (value, place) =>
  typeof value === 'number' && Number.isFinite(value) ? value : damaged(value, place);

export const integer: Check<number> = (value, place) =>
  Number.isInteger(value) ? (value as number) : damaged(value, place);

export function oneOf<T extends string>(...words: T[]): Check<T> {
  return (value, place) => words.find(word => word === value) ?? damaged(value, place);
}

export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value, place) => (value === null ? null : check(value, place));
}

/** For a field that an older version does not write. */
export function optional<T>(check: Check<T>, otherwise: T): Check<T> {
  return (value, place) => (value === undefined ? otherwise : check(value, place));
}

export function list<T>(check: Check<T>): Check<T[]> {
  return (value, place) =>
    Array.isArray(value)
      ? value.map((item, index) => check(item, below(place, index)))
      : damaged(value, place);
}

/** Fields that this version does not know are left out. */
export function object<T extends object>(fields: Fields<T>): Check<T> {
  return (value, place) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return damaged(value, place);
    }
    const given = value as Record<string, unknown>;
    const result: Partial<T> = {};
    for (const key of Object.keys(fields) as (keyof T & string)[]) {
      const own = Object.prototype.hasOwnProperty.call(given, key) ? given[key] : undefined;
      result[key] = fields[key](own, below(place, key));
    }
    return result as T;
  };
}
