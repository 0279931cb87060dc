import { applyTick, parseMessage } from '../parse';
import { ISnapshot, ITick } from '../wire';
import { exampleText, snapshotExample, tickExample } from './support/wire';

type Json = Record<string, any>;

function example(name: string): Json {
  return JSON.parse(exampleText(name)) as Json;
}

function altered(name: string, alter: (message: Json) => void): string {
  const message = example(name);
  alter(message);
  return JSON.stringify(message);
}

function after(name: 'tick' | 'tick_changed' = 'tick'): ISnapshot {
  const { tick_columns, ...snapshot } = snapshotExample();
  return applyTick(snapshot, tickExample(name), tick_columns)!;
}

describe('parseMessage', () => {
  it.each(['stream_snapshot', 'tick', 'tick_changed'])('takes the server’s %s', name => {
    expect(parseMessage(exampleText(name))).toEqual(example(name));
  });

  it('takes an error', () => {
    const error = { type: 'error', code: 'bad-message', message: 'No.' };
    expect(parseMessage(JSON.stringify(error))).toEqual(error);
  });

  it('takes fields and notices that a newer server may send', () => {
    const text = altered('stream_snapshot', message => {
      message.later = { any: 'thing' };
      message.devices[0].fan_percent = 30;
      message.notices.push({ code: 'of-tomorrow', severity: 'grave', message: 'Look up.' });
    });
    expect(parseMessage(text)).toEqual(JSON.parse(text));
  });

  it.each(['', '{', 'null', '[]', '7', '"tick"', '{}', '{"type": "other"}', '{"type": "error"}'])(
    'refuses %j',
    text => {
      expect(parseMessage(text)).toBeNull();
    }
  );

  const broken: [string, string, (message: Json) => void][] = [
    ['no time', 'stream_snapshot', m => delete m.time],
    ['no devices', 'stream_snapshot', m => delete m.devices],
    ['a device without an id', 'stream_snapshot', m => delete m.devices[0].id],
    ['a device without reasons', 'stream_snapshot', m => (m.devices[1].reasons = null)],
    ['a kernel that is null', 'stream_snapshot', m => (m.kernels[0] = null)],
    ['a kernel whose paths are a text', 'stream_snapshot', m => (m.kernels[0].paths = 'a')],
    ['a share without parts', 'stream_snapshot', m => delete m.kernels[0].devices[0].parts],
    ['a notice without a sentence', 'stream_snapshot', m => delete m.notices[0].message],
    ['no tick_columns', 'stream_snapshot', m => delete m.tick_columns],
    ['a column name that is none', 'stream_snapshot', m => (m.tick_columns.devices[0] = 3)],
    ['a history without time', 'stream_snapshot', m => delete first(m.history).time],
    ['a column too short', 'stream_snapshot', m => first(m.history).columns.used_bytes.pop()],
    ['a part too long', 'stream_snapshot', m => firstPart(m).push(null)],
    ['no rows', 'tick', m => delete m.devices],
    ['a row that is no list', 'tick', m => (m.kernels[0] = { report_age_s: 1 })],
    ['a changed section that is broken', 'tick_changed', m => (m.changed.kernels = [{}])],
    ['changes that are a list', 'tick_changed', m => (m.changed = [])]
  ];
  it.each(broken)('refuses %s', (_, name, alter) => {
    expect(parseMessage(altered(name, alter))).toBeNull();
  });
});

describe('applyTick', () => {
  it('puts the figures where tick_columns say', () => {
    const { devices, kernels, time } = after();
    expect(time).toBe(1764547201);
    expect(devices[0]).toMatchObject({
      name: 'NVIDIA GeForce RTX 4090',
      used_bytes: 15216934912,
      unattributed_bytes: 0,
      power_w: 340.25
    });
    expect(devices[1]!.driver_reserved_bytes).toBeNull();
    expect(kernels[0]).toMatchObject({ name: 'train.ipynb', report_age_s: 0.1 });
    expect(kernels[0]!.devices[0]).toMatchObject({
      allocated_bytes: 9651093504,
      reserved_bytes: 12335448064,
      inactive_split_bytes: 402653184,
      parts: { allocated: 9651093504, reserved_free: 2684354560, context: 536870912 }
    });
  });

  it('follows the order of columns that the server names, not one of its own', () => {
    const { tick_columns, ...snapshot } = snapshotExample();
    const tick = tickExample();
    tick_columns.devices.reverse();
    tick.devices.forEach(row => row.reverse());
    tick_columns.kernels.reverse();
    tick.kernels.forEach(row => (row as unknown[]).reverse());
    const reversed = applyTick(snapshot, tick, tick_columns);
    expect(reversed).toEqual({ ...after() });
  });

  it('leaves the former snapshot as it was', () => {
    const { tick_columns, ...snapshot } = snapshotExample();
    const before = JSON.stringify(snapshot);
    const next = applyTick(snapshot, tickExample(), tick_columns)!;
    expect(JSON.stringify(snapshot)).toBe(before);
    expect(next.devices[0]).not.toBe(snapshot.devices[0]);
    expect(next.kernels[0]).not.toBe(snapshot.kernels[0]);
  });

  it('replaces changed sections before it reads the rows', () => {
    const { kernels, devices, notices } = after('tick_changed');
    expect(kernels.map(kernel => kernel.name)).toEqual([
      'train.ipynb',
      'explore.ipynb',
      'console 1'
    ]);
    expect(kernels[0]!.cells[1]!.ended_at).toBe(1764547200.8);
    expect(kernels[0]!.devices[0]!.parts.allocated).toBe(9651093504);
    expect(kernels[2]).toMatchObject({ report_age_s: 0.3, devices: [] });
    expect(devices).toHaveLength(2);
    expect(notices.map(notice => notice.code)).toEqual(['gpu-lost']);
  });

  it('stays right over many ticks', () => {
    const { tick_columns, ...snapshot } = snapshotExample();
    let current: ISnapshot = snapshot;
    for (let i = 1; i <= 3; i++) {
      const tick = tickExample();
      tick.time += i;
      tick.kernels[0]![1][0]![4] = [i, 10 * i, 100 * i];
      current = applyTick(current, tick, tick_columns)!;
    }
    expect(current.kernels[0]!.devices[0]!.parts).toEqual({
      allocated: 3,
      reserved_free: 30,
      context: 300
    });
  });

  const misfits: [string, (tick: ITick) => void][] = [
    ['a device is missing', tick => tick.devices.pop()],
    ['a kernel is too many', tick => tick.kernels.push([null, []])],
    ['a device’s row is short', tick => tick.devices[0]!.pop()],
    ['a kernel has another device', tick => tick.kernels[1]![1].pop()],
    ['a part is missing', tick => (tick.kernels[0]![1][0]![4] = [1])]
  ];
  it.each(misfits)('refuses a tick that does not fit: %s', (_, spoil) => {
    const { tick_columns, ...snapshot } = snapshotExample();
    const tick = tickExample();
    spoil(tick);
    expect(applyTick(snapshot, tick, tick_columns)).toBeNull();
  });
});

function first(fields: Json): Json {
  return Object.values(fields)[0] as Json;
}

function firstPart(message: Json): unknown[] {
  return first(first(first(message.history).kernels).parts) as unknown[];
}
