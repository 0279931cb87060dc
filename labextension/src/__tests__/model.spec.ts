import { StreamClient } from '../client';
import { VramModel } from '../model';
import { DEFAULT_SETTINGS } from '../settings';
import { FakeServer, settle } from './support/server';
import { exampleText, snapshotExample, tickExample } from './support/wire';

const SNAPSHOT = exampleText('stream_snapshot');
const TICK = exampleText('tick');
const DEVICE = snapshotExample().devices[0]!.id;
const LINGER_MS = 10_000;

let server: FakeServer;
let model: VramModel;
let updates: number;

beforeEach(() => {
  jest.useFakeTimers();
  server = new FakeServer();
  model = new VramModel(new StreamClient(server.settings(), DEFAULT_SETTINGS));
  updates = 0;
  model.updated.connect(() => updates++);
});

afterEach(() => {
  jest.useRealTimers();
});

describe('watching', () => {
  it('is what opens the stream', () => {
    expect(server.sockets).toHaveLength(0);
    model.watch();
    model.watch();
    expect(server.sockets).toHaveLength(1);
  });

  it('keeps the stream open while anyone watches, and a little longer', () => {
    const first = model.watch();
    const second = model.watch();
    server.socket.receive(SNAPSHOT);
    first.dispose();
    first.dispose();
    jest.advanceTimersByTime(LINGER_MS / 2);
    server.socket.receive(TICK);
    second.dispose();
    jest.advanceTimersByTime(LINGER_MS - 1);
    expect(server.open).toBe(1);
    jest.advanceTimersByTime(1);
    expect(server.open).toBe(0);
  });

  it('again in time goes on with the same stream', () => {
    model.watch().dispose();
    jest.advanceTimersByTime(LINGER_MS / 2);
    model.watch();
    server.socket.receive(SNAPSHOT);
    jest.advanceTimersByTime(LINGER_MS - 1);
    expect(server.sockets).toHaveLength(1);
    expect(server.open).toBe(1);
  });

  it('pauses while the page cannot be seen', () => {
    model.setPageVisible(false);
    model.watch();
    expect(server.sockets).toHaveLength(0);
    model.setPageVisible(true);
    expect(server.open).toBe(1);
    model.setPageVisible(false);
    jest.advanceTimersByTime(LINGER_MS);
    expect(server.open).toBe(0);
    model.setPageVisible(true);
    expect(server.open).toBe(1);
  });
});

describe('figures', () => {
  it('begin with the past', () => {
    model.watch();
    expect(model.snapshot).toBeNull();
    server.socket.receive(SNAPSHOT);
    expect(model.snapshot!.devices.map(device => device.name)).toEqual([
      'NVIDIA GeForce RTX 4090',
      'Tesla K80'
    ]);
    expect(model.snapshot).not.toHaveProperty('history');
    expect(model.histories.get(DEVICE)!.time).toEqual([1764547198, 1764547199, 1764547200]);
    expect(model.connection.status).toBe('connected');
  });

  it('go on with ticks, in a new snapshot and in the past', () => {
    model.watch();
    server.socket.receive(SNAPSHOT);
    const { snapshot } = model;
    const before = updates;
    server.socket.receive(TICK);
    expect(updates).toBe(before + 1);
    expect(model.snapshot).not.toBe(snapshot);
    expect(snapshot!.devices[0]!.used_bytes).toBe(14680064000);
    expect(model.snapshot!.devices[0]!.used_bytes).toBe(15216934912);
    const history = model.histories.get(DEVICE)!;
    expect(history.time).toHaveLength(4);
    expect(history.columns.used_bytes![3]).toBe(15216934912);
    expect(history.kernels[model.snapshot!.kernels[0]!.kernel_id]!.parts.allocated![3]).toBe(
      9651093504
    );
  });

  it('of a device without a past begin one', () => {
    model.watch();
    server.socket.receive(SNAPSHOT);
    const other = model.snapshot!.devices[1]!.id;
    expect(model.histories.get(other)!.columns.used_bytes).toEqual([3145728]);
  });

  it('before the first snapshot are none', () => {
    model.watch();
    server.socket.receive(TICK);
    expect(model.snapshot).toBeNull();
    expect(model.histories.size).toBe(0);
  });

  it('that do not fit are asked for anew, as a whole', () => {
    model.watch();
    server.socket.receive(SNAPSHOT);
    const { snapshot } = model;
    server.socket.receive(JSON.stringify({ ...tickExample(), devices: [] }));
    expect(model.snapshot).toBe(snapshot);
    expect(server.sockets).toHaveLength(2);
    expect(server.open).toBe(1);
  });

  it('stay while the server is away, and their past is replaced when it is back', async () => {
    model.watch();
    server.socket.receive(SNAPSHOT);
    server.socket.receive(TICK);
    server.socket.break();
    await settle();
    expect(model.connection.status).toBe('disconnected');
    expect(model.snapshot!.devices[0]!.used_bytes).toBe(15216934912);
    jest.advanceTimersToNextTimer();
    server.socket.receive(SNAPSHOT);
    expect(model.histories.get(DEVICE)!.time).toHaveLength(3);
    expect(model.connection.status).toBe('connected');
  });

  it('are told of when the connection changes, too', async () => {
    model.watch();
    const before = updates;
    server.socket.break();
    await settle();
    expect(updates).toBeGreaterThan(before);
  });
});

describe('settings', () => {
  it('are checked, completed and told', () => {
    let told = 0;
    model.settingsChanged.connect(() => told++);
    model.setSettings({ unit: 'GB', windowSeconds: 1 });
    expect(model.settings).toEqual({ ...DEFAULT_SETTINGS, unit: 'GB', windowSeconds: 30 });
    model.setSettings({ side: 'left' });
    expect(model.settings).toMatchObject({ unit: 'GB', side: 'left' });
    expect(told).toBe(2);
  });

  it('ask the server for another rate or a longer past', () => {
    model.watch();
    server.socket.receive(SNAPSHOT);
    model.setSettings({ intervalSeconds: 0.5 });
    expect(server.socket.sent).toContainEqual({ type: 'configure', interval_s: 0.5 });
    model.setSettings({ windowSeconds: 900 });
    expect(server.sockets).toHaveLength(2);
    expect(server.socket.url).toContain('seconds=900');
  });

  it('shorten the past with the next figures', () => {
    model.watch();
    const message = snapshotExample();
    const shift = message.history[DEVICE]!.time;
    shift.splice(0, 3, message.time - 200, message.time - 100, message.time);
    server.socket.receive(JSON.stringify(message));
    model.setSettings({ windowSeconds: 30 });
    server.socket.receive(TICK);
    expect(model.histories.get(DEVICE)!.time).toHaveLength(3);
    expect(model.histories.get(DEVICE)!.time[0]).toBe(message.time - 100);
  });
});

describe('focus', () => {
  it('is told once for each change', () => {
    let told = 0;
    model.focusChanged.connect(() => told++);
    model.setFocus('k1', 'a.ipynb');
    model.setFocus('k1', 'a.ipynb');
    model.setFocus('k1', 'renamed.ipynb');
    expect(told).toBe(2);
    expect(model.focusedKernelId).toBe('k1');
    expect(model.focusedPath).toBe('renamed.ipynb');
    model.setFocus(null, null);
    expect(model.focusedKernelId).toBeNull();
  });
});
