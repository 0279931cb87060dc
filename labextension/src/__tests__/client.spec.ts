import { StreamClient, streamUrl } from '../client';
import { Connection } from '../tokens';
import { Message } from '../wire';
import { FakeServer, settle } from './support/server';
import { exampleText } from './support/wire';

const SNAPSHOT = exampleText('stream_snapshot');
const TICK = exampleText('tick');

let server: FakeServer;
let client: StreamClient;
let received: Message[];
let connections: Connection['status'][];

beforeEach(() => {
  jest.useFakeTimers();
  server = new FakeServer();
  client = new StreamClient(server.settings(), { intervalSeconds: 1, windowSeconds: 300 });
  received = [];
  connections = [];
  client.received.connect((_, message) => received.push(message));
  client.connectionChanged.connect((_, connection) => connections.push(connection.status));
});

afterEach(() => {
  client.close();
  expect(jest.getTimerCount()).toBe(0);
  jest.useRealTimers();
});

/** Break the stream, and wait until its end has been looked into. */
async function lose(): Promise<void> {
  server.socket.break();
  await settle();
}

describe('streamUrl', () => {
  it('is under the base URL and asks for the window', () => {
    expect(streamUrl(server.settings(), 299.6)).toBe(
      'ws://localhost:8888/user/me/jupyter-vram/api/v1/stream?seconds=300&points=400'
    );
  });

  it('has the token only where the page has no cookie', () => {
    const token = 'a&b';
    expect(streamUrl(server.settings({ token, appendToken: true }), 60)).toMatch(/&token=a%26b$/);
    expect(streamUrl(server.settings({ token, appendToken: false }), 60)).not.toMatch(/token/);
    expect(streamUrl(server.settings({ token: '', appendToken: true }), 60)).not.toMatch(/token/);
  });
});

describe('a stream', () => {
  it('is opened once, when asked for', () => {
    expect(server.sockets).toHaveLength(0);
    client.open();
    client.open();
    expect(server.sockets).toHaveLength(1);
    expect(client.connection.status).toBe('connecting');
  });

  it('is connected from the first snapshot on, and then asks for the rate', () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    server.socket.receive(TICK);
    expect(client.connection.status).toBe('connected');
    expect(received.map(message => message.type)).toEqual(['snapshot', 'tick']);
    expect(server.socket.sent).toEqual([{ type: 'configure', interval_s: 1 }]);
  });

  it('asks for another rate when the setting changes, in the same stream', () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    client.configure({ intervalSeconds: 5, windowSeconds: 300 });
    client.configure({ intervalSeconds: 5, windowSeconds: 60 });
    expect(server.sockets).toHaveLength(1);
    expect(server.socket.sent.slice(1)).toEqual([{ type: 'configure', interval_s: 5 }]);
  });

  it('begins anew for a longer window', () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    client.configure({ intervalSeconds: 1, windowSeconds: 3600 });
    expect(server.sockets).toHaveLength(2);
    expect(server.open).toBe(1);
    expect(server.socket.url).toContain('seconds=3600');
    expect(client.connection.status).toBe('connected');
  });

  it('passes over what it does not understand', () => {
    const warn = jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    client.open();
    server.socket.receive(SNAPSHOT);
    server.socket.receive('{"type": "of-tomorrow"}');
    server.socket.receive('{');
    server.socket.receive('{"type": "error", "code": "bad-message", "message": "No."}');
    server.socket.receive(TICK);
    expect(received.map(message => message.type)).toEqual(['snapshot', 'tick']);
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });

  it('says so when the server begins with what cannot be understood', () => {
    client.open();
    server.socket.receive('{"type": "snapshot", "schema_version": 9}');
    expect(client.connection).toMatchObject({
      status: 'disconnected',
      message: expect.stringContaining('different versions') as string
    });
    expect(server.open).toBe(0);
  });

  it('is closed for good', () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    client.close();
    expect(server.open).toBe(0);
    jest.advanceTimersByTime(120_000);
    expect(server.sockets).toHaveLength(1);
  });
});

describe('a lost stream', () => {
  it('is tried again by itself, and says when', async () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    await lose();
    const { connection } = client;
    expect(connection).toMatchObject({
      status: 'disconnected',
      message: 'The server is not answering.'
    });
    const wait = (connection as { retryAt: number }).retryAt - Date.now();
    expect(wait).toBeGreaterThanOrEqual(800);
    expect(wait).toBeLessThanOrEqual(1200);
    jest.advanceTimersByTime(wait + 1);
    expect(server.sockets).toHaveLength(2);
    server.socket.receive(SNAPSHOT);
    expect(client.connection.status).toBe('connected');
  });

  it('is tried ever more slowly, up to a limit, and anew once it was there', async () => {
    jest.spyOn(Math, 'random').mockReturnValue(0.5);
    client.open();
    const waits: number[] = [];
    const wait = async () => {
      await lose();
      const { retryAt } = client.connection as { retryAt: number };
      waits.push(retryAt - Date.now());
      jest.advanceTimersByTime(retryAt - Date.now());
    };
    for (let i = 0; i < 6; i++) {
      await wait();
    }
    server.socket.receive(SNAPSHOT);
    await wait();
    expect(waits).toEqual([1000, 2000, 4000, 8000, 15000, 15000, 1000]);
    jest.restoreAllMocks();
  });

  it('stays said until figures arrive', async () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    for (let i = 0; i < 3; i++) {
      await lose();
      jest.advanceTimersToNextTimer();
    }
    expect(new Set(connections)).toEqual(new Set(['connecting', 'connected', 'disconnected']));
    expect(connections.lastIndexOf('connecting')).toBe(0);
  });

  it('tells a server without the extension, with what to do, and goes on trying', async () => {
    server.status = 404;
    client.open();
    await lose();
    expect(server.requests).toEqual([
      expect.stringContaining('http://localhost:8888/user/me/jupyter-vram/api/v1/snapshot')
    ]);
    expect(client.connection).toMatchObject({
      status: 'missing',
      message: expect.stringContaining('jupyter server extension enable jupyter_vram') as string
    });
    jest.advanceTimersToNextTimer();
    await lose();
    expect(connections).toEqual(['connecting', 'disconnected', 'missing', 'missing']);
    jest.advanceTimersToNextTimer();
    expect(server.sockets).toHaveLength(3);
    server.socket.receive(SNAPSHOT);
    expect(client.connection.status).toBe('connected');
  });

  it('tells when one is not allowed', async () => {
    server.status = 403;
    client.open();
    await lose();
    expect(client.connection).toMatchObject({
      status: 'disconnected',
      message: expect.stringContaining('log in') as string
    });
  });

  it('is not looked into any more once it is closed', async () => {
    server.status = 404;
    client.open();
    server.socket.break();
    client.close();
    await settle();
    expect(client.connection.status).toBe('connecting');
  });
});

describe('silence', () => {
  it('is a lost stream', async () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    jest.advanceTimersByTime(9_000);
    server.socket.receive(TICK);
    jest.advanceTimersByTime(9_999);
    expect(client.connection.status).toBe('connected');
    jest.advanceTimersByTime(1);
    await settle();
    expect(client.connection.status).toBe('disconnected');
    expect(server.open).toBe(0);
  });

  it('of a server that accepts and says nothing, too', async () => {
    client.open();
    jest.advanceTimersByTime(10_000);
    await settle();
    expect(client.connection.status).toBe('disconnected');
  });

  it('is longer at a slow rate, from the moment it is chosen', () => {
    client.open();
    server.socket.receive(SNAPSHOT);
    client.configure({ intervalSeconds: 60, windowSeconds: 300 });
    jest.advanceTimersByTime(299_000);
    expect(client.connection.status).toBe('connected');
  });

  it('is longer where the server is slower than was wished', () => {
    client.open();
    const slow = { ...(JSON.parse(SNAPSHOT) as object), interval_s: 30 };
    server.socket.receive(JSON.stringify(slow));
    jest.advanceTimersByTime(149_000);
    expect(client.connection.status).toBe('connected');
  });
});
