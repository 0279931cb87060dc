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
/** So many intervals without a tick are silence. */
const PATIENCE = 5;
const LEAST_PATIENCE_S = 10;

const UNREACHABLE = 'The server is not answering.';
const FORBIDDEN =
  'The server does not let this page see its memory: reload the page and log in again.';
const NOT_UNDERSTOOD =
  'The server’s figures are not understood: this page and the server have different versions of' +
  ' jupyter-vram. Reload the page; if that does not help, restart the server.';
const MISSING =
  'This server has no memory figures: its part of jupyter-vram is not installed or not enabled.' +
  ' In the environment that runs the server, run “pip install jupyter-vram” and “jupyter server' +
  ' extension enable jupyter_vram”, then restart the server.';

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
    this._set({ status: 'connecting' });
    this._connect();
  }

  close(): void {
    if (!this._wanted) {
      return;
    }
    this._wanted = false;
    this._stopRetrying();
    this._drop();
    this._set({ status: 'connecting' });
  }

  /** Begin anew: the past is sent once more. */
  reopen(): void {
    if (this._wanted) {
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

  /** What went wrong stays said until figures arrive, or it would flicker at each attempt. */
  private _connect(): void {
    this._stopRetrying();
    const url = streamUrl(this._settings, this._wishes.windowSeconds);
    const socket = new this._settings.WebSocket(url);
    this._socket = socket;
    this._greeted = false;
    socket.onmessage = (event: MessageEvent) => this._onMessage(event);
    socket.onclose = () => void this._onLost();
    this._expect();
  }

  private _onMessage(event: MessageEvent): void {
    const message = parseMessage(String(event.data));
    if (message === null) {
      // A newer server may send messages that this version does not know, but not begin so.
      if (!this._greeted) {
        const retryAt = this._retryLater();
        this._set({ status: 'disconnected', retryAt, message: NOT_UNDERSTOOD });
      }
      return;
    }
    if (message.type === 'error') {
      console.warn(`jupyter-vram: ${message.message}`);
      return;
    }
    const interval = message.type === 'tick' ? message.changed?.interval_s : message.interval_s;
    this._serverInterval = interval ?? this._serverInterval;
    this._expect();
    if (message.type === 'snapshot') {
      this._greeted = true;
      this._delay = FIRST_DELAY_MS;
      this._set({ status: 'connected' });
      this._sendWishes();
    }
    this._received.emit(message);
  }

  /** A connection that went silent without a close (a sleeping laptop) is given up. */
  private _expect(): void {
    clearTimeout(this._silence);
    const interval = Math.max(this._wishes.intervalSeconds, this._serverInterval);
    const patience = Math.max(LEAST_PATIENCE_S, PATIENCE * interval);
    this._silence = setTimeout(() => void this._onLost(), patience * 1000);
  }

  private _sendWishes(): void {
    if (this._greeted && this._socket?.readyState === 1) {
      this._expect();
      const interval_s = this._wishes.intervalSeconds;
      this._socket.send(JSON.stringify({ type: 'configure', interval_s }));
    }
  }

  private async _onLost(): Promise<void> {
    const known = this._connection;
    const retryAt = this._retryLater();
    // What an earlier attempt found out holds until this one has, too.
    if (known.status !== 'missing') {
      const message = known.status === 'disconnected' ? known.message : UNREACHABLE;
      this._set({ status: 'disconnected', retryAt, message });
    }
    const retry = this._retry;
    const connection = await this._diagnose(retryAt);
    if (this._retry === retry) {
      this._set(connection);
    }
  }

  /** Returns when: milliseconds since the epoch. */
  private _retryLater(): number {
    this._drop();
    // Some jitter, or all tabs of a restarted server come at the same moment.
    const delay = this._delay * (0.8 + 0.4 * Math.random());
    this._delay = Math.min(this._delay * 2, MAX_DELAY_MS);
    this._retry = setTimeout(() => this._connect(), delay);
    return Date.now() + delay;
  }

  /** A browser does not say why a WebSocket failed; a plain request tells. */
  private async _diagnose(retryAt: number): Promise<Connection> {
    const url = URLExt.join(this._settings.baseUrl, ...API, 'snapshot');
    let status: number | null;
    try {
      status = (await ServerConnection.makeRequest(url, {}, this._settings)).status;
    } catch {
      status = null; // nobody answers at all
    }
    if (status === 404) {
      return { status: 'missing', message: MISSING };
    }
    const refused = status === 401 || status === 403;
    return { status: 'disconnected', retryAt, message: refused ? FORBIDDEN : UNREACHABLE };
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

  private _stopRetrying(): void {
    clearTimeout(this._retry);
    this._retry = undefined;
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
  private _greeted = false;
  private _serverInterval = 0;
  private _delay = FIRST_DELAY_MS;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _silence: ReturnType<typeof setTimeout> | undefined;
}
