import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { parseMessage } from './parse';
import { Connection } from './tokens';
import { Message } from './wire';

const API = ['jupyter-vram', 'api', 'v1'];
/** Rows of history that a stream begins with; a chart has no more pixels. */
const HISTORY_POINTS = 400;
const FIRST_DELAY_MS = 1000;
const MAX_DELAY_MS = 15000;

export interface IStreamWishes {
  intervalSeconds: number;
  windowSeconds: number;
}

/** The address of the stream for these server settings. */
export function streamUrl(settings: ServerConnection.ISettings, windowSeconds: number): string {
  const query: Record<string, string> = {
    seconds: String(Math.round(windowSeconds)),
    points: String(HISTORY_POINTS)
  };
  if (settings.appendToken && settings.token) {
    query.token = settings.token;
  }
  return URLExt.join(settings.wsUrl, ...API, 'stream') + URLExt.objectToQueryString(query);
}

/**
 * The only part that talks to the server: one WebSocket, opened and closed by its user, which
 * connects again by itself, ever more slowly, while it is wanted.
 */
export class StreamClient {
  constructor(
    private _settings: ServerConnection.ISettings,
    private _wishes: IStreamWishes
  ) {}

  get received(): ISignal<this, Message> {
    return this._received;
  }

  get connectionChanged(): ISignal<this, Connection> {
    return this._connectionChanged;
  }

  get connection(): Connection {
    return this._connection;
  }

  open(): void {
    if (this._wanted) {
      return;
    }
    this._wanted = true;
    this._delay = FIRST_DELAY_MS;
    this._connect();
  }

  close(): void {
    this._wanted = false;
    clearTimeout(this._retry);
    this._drop();
    this._set({ status: 'connecting' });
  }

  /** Begin anew: the past is sent once more. */
  reopen(): void {
    if (this._wanted) {
      clearTimeout(this._retry);
      this._drop();
      this._connect();
    }
  }

  configure(wishes: IStreamWishes): void {
    const { intervalSeconds, windowSeconds } = this._wishes;
    this._wishes = { ...wishes };
    if (wishes.windowSeconds > windowSeconds) {
      this.reopen();
    } else if (wishes.intervalSeconds !== intervalSeconds) {
      this._sendWishes();
    }
  }

  private _connect(): void {
    this._set({ status: 'connecting' });
    const url = streamUrl(this._settings, this._wishes.windowSeconds);
    const socket = new this._settings.WebSocket(url);
    this._socket = socket;
    socket.onmessage = (event: MessageEvent) => this._onMessage(event);
    socket.onclose = () => {
      if (this._socket === socket) {
        void this._onLost();
      }
    };
    this._expect();
  }

  private _onMessage(event: MessageEvent): void {
    this._expect();
    const message = parseMessage(String(event.data));
    if (message === null) {
      return; // a newer server may send more than this version knows
    }
    if (message.type === 'error') {
      console.warn(`jupyter-vram: ${message.message}`);
      return;
    }
    if (message.type === 'snapshot') {
      this._delay = FIRST_DELAY_MS;
      this._set({ status: 'connected' });
      this._sendWishes();
    }
    this._received.emit(message);
  }

  /** A connection that went silent without a close (a sleeping laptop) is given up. */
  private _expect(): void {
    clearTimeout(this._silence);
    const patience = Math.max(10, 5 * this._wishes.intervalSeconds) * 1000;
    this._silence = setTimeout(() => {
      this._drop();
      void this._onLost();
    }, patience);
  }

  private _sendWishes(): void {
    if (this._socket?.readyState === 1) {
      const interval_s = this._wishes.intervalSeconds;
      this._socket.send(JSON.stringify({ type: 'configure', interval_s }));
    }
  }

  private async _onLost(): Promise<void> {
    this._drop();
    if (!this._wanted) {
      return;
    }
    // Some jitter, or all tabs of a restarted server come at the same moment.
    const delay = this._delay * (0.8 + 0.4 * Math.random());
    this._delay = Math.min(this._delay * 2, MAX_DELAY_MS);
    this._retry = setTimeout(() => this._connect(), delay);
    const lost: Connection = {
      status: 'disconnected',
      retryAt: Date.now() + delay,
      message: 'The server is not answering.'
    };
    this._set(lost);
    if ((await this._isMissing()) && this._connection === lost) {
      this._set({
        status: 'missing',
        message:
          'This server has no memory figures: its part of jupyter-vram is not installed or not' +
          ' enabled. In the environment that runs the server, run “pip install jupyter-vram” and' +
          ' “jupyter server extension enable jupyter_vram”, then restart the server.'
      });
    }
  }

  private async _isMissing(): Promise<boolean> {
    const url = URLExt.join(this._settings.baseUrl, ...API, 'snapshot');
    try {
      const response = await ServerConnection.makeRequest(url, {}, this._settings);
      return response.status === 404;
    } catch {
      return false; // nobody answers at all
    }
  }

  private _drop(): void {
    clearTimeout(this._silence);
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  private _set(connection: Connection): void {
    this._connection = connection;
    this._connectionChanged.emit(connection);
  }

  private _connection: Connection = { status: 'connecting' };
  private _connectionChanged = new Signal<this, Connection>(this);
  private _received = new Signal<this, Message>(this);
  private _socket: WebSocket | null = null;
  private _wanted = false;
  private _delay = FIRST_DELAY_MS;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _silence: ReturnType<typeof setTimeout> | undefined;
}
