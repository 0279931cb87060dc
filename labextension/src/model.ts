import { ISignal, Signal } from '@lumino/signaling';
import { StreamClient } from './client';
import { append } from './history';
import { applyTick } from './parse';
import { checkedSettings, DEFAULT_SETTINGS } from './settings';
import { Connection, ISettings, IVramModel } from './tokens';
import { IHistory, ISnapshot, ITickColumns, Message } from './wire';

/** How long the stream stays open when nobody watches any more: long enough to switch panels. */
const LINGER_MS = 10_000;

/** Puts what the client receives into a state for the views. Has no DOM. */
export class VramModel implements IVramModel {
  constructor(private _client: StreamClient) {
    _client.received.connect(this._onMessage, this);
    _client.connectionChanged.connect(() => this._updated.emit());
  }

  get snapshot(): ISnapshot | null {
    return this._snapshot;
  }

  get histories(): ReadonlyMap<string, IHistory> {
    return this._histories;
  }

  get connection(): Connection {
    return this._client.connection;
  }

  get settings(): ISettings {
    return this._settings;
  }

  get focusedKernelId(): string | null {
    return this._focusedKernelId;
  }

  get focusedPath(): string | null {
    return this._focusedPath;
  }

  get updated(): ISignal<this, void> {
    return this._updated;
  }

  get settingsChanged(): ISignal<this, void> {
    return this._settingsChanged;
  }

  get focusChanged(): ISignal<this, void> {
    return this._focusChanged;
  }

  watch(): { dispose(): void } {
    this._watchers++;
    this._reckon();
    let disposed = false;
    return {
      dispose: () => {
        if (!disposed) {
          disposed = true;
          this._watchers--;
          this._reckon();
        }
      }
    };
  }

  /** Whether the page can be seen at all; while not, nothing is asked for. */
  setPageVisible(visible: boolean): void {
    this._pageVisible = visible;
    this._reckon();
  }

  setFocus(kernelId: string | null, path: string | null): void {
    if (kernelId !== this._focusedKernelId || path !== this._focusedPath) {
      this._focusedKernelId = kernelId;
      this._focusedPath = path;
      this._focusChanged.emit();
    }
  }

  setSettings(settings: Partial<ISettings>): void {
    this._settings = checkedSettings({ ...this._settings, ...settings });
    this._client.configure(this._settings);
    this._settingsChanged.emit();
  }

  private _reckon(): void {
    clearTimeout(this._linger);
    if (this._watchers > 0 && this._pageVisible) {
      this._client.open();
    } else {
      this._linger = setTimeout(() => this._client.close(), LINGER_MS);
    }
  }

  private _onMessage(_: StreamClient, message: Message): void {
    if (message.type === 'snapshot') {
      const { history, tick_columns, ...snapshot } = message;
      this._columns = tick_columns;
      this._snapshot = snapshot;
      this._histories = new Map(Object.entries(history));
    } else if (message.type === 'tick' && this._snapshot && this._columns) {
      const next = applyTick(this._snapshot, message, this._columns);
      if (next === null) {
        this._client.reopen(); // the whole state comes anew
        return;
      }
      this._snapshot = next;
    }
    this._remember();
    this._updated.emit();
  }

  private _remember(): void {
    const snapshot = this._snapshot;
    for (const device of snapshot?.devices ?? []) {
      const past = this._histories.get(device.id);
      const window = this._settings.windowSeconds;
      this._histories.set(device.id, append(past, snapshot!, device.id, window));
    }
  }

  private _snapshot: ISnapshot | null = null;
  private _columns: ITickColumns | null = null;
  private _histories = new Map<string, IHistory>();
  private _settings = DEFAULT_SETTINGS;
  private _focusedKernelId: string | null = null;
  private _focusedPath: string | null = null;
  private _watchers = 0;
  private _pageVisible = true;
  private _linger: ReturnType<typeof setTimeout> | undefined;
  private _updated = new Signal<this, void>(this);
  private _settingsChanged = new Signal<this, void>(this);
  private _focusChanged = new Signal<this, void>(this);
}
