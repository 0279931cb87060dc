import { ServerConnection } from '@jupyterlab/services';

/** A WebSocket whose other end is the test. */
export class FakeSocket {
  constructor(readonly url: string) {}

  readyState = 0;
  readonly sent: unknown[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.readyState = 3;
  }

  /** The server accepts and sends something. */
  receive(text: string): void {
    this.readyState = 1;
    this.onmessage?.({ data: text });
  }

  /** The server closes, or was never there. */
  break(): void {
    this.readyState = 3;
    this.onclose?.();
  }
}

/** A server that notes each stream, and answers each request with `status` (0: nobody answers). */
export class FakeServer {
  readonly sockets: FakeSocket[] = [];
  readonly requests: string[] = [];
  status = 0;

  get socket(): FakeSocket {
    return this.sockets[this.sockets.length - 1]!;
  }

  get open(): number {
    return this.sockets.filter(socket => socket.readyState < 2).length;
  }

  settings(more: Partial<ServerConnection.ISettings> = {}): ServerConnection.ISettings {
    const { sockets, requests } = this;
    return ServerConnection.makeSettings({
      baseUrl: 'http://localhost:8888/user/me/',
      wsUrl: 'ws://localhost:8888/user/me/',
      token: '',
      appendToken: false,
      WebSocket: class extends FakeSocket {
        constructor(url: string) {
          super(url);
          sockets.push(this);
        }
      } as unknown as typeof WebSocket,
      fetch: request => {
        requests.push((request as Request).url);
        return this.status === 0
          ? Promise.reject(new TypeError('Failed to fetch'))
          : Promise.resolve({ status: this.status } as Response);
      },
      ...more
    });
  }
}

/** Let promises that wait for nothing settle. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await Promise.resolve();
  }
}
