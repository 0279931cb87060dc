import * as React from 'react';

/**
 * What the user opened and chose. A notebook unmounts outputs that are scrolled out of sight: this
 * outlives them.
 */
export const ViewMemory = React.createContext(new Map<string, unknown>());

/** State under a name of its own that is still there after the output was scrolled away. */
export function useRemembered<T>(key: string, initial: () => T): [T, (value: T) => void] {
  const memory = React.useContext(ViewMemory);
  const [value, setValue] = React.useState(() =>
    memory.has(key) ? (memory.get(key) as T) : initial()
  );
  const set = React.useCallback(
    (next: T) => {
      memory.set(key, next);
      setValue(next);
    },
    [memory, key]
  );
  return [value, set];
}
