import * as React from 'react';
import { LEVEL_WORDS, level } from './components/deviceCard';
import { amount, shortName, size, usedPercent } from './format';
import { vramIcon } from './icons';
import { IVramModel } from './tokens';
import { IDevice } from './wire';
import { WatchingWidget } from './watchingWidget';

/** The devices that the status item tells of, the fullest first. */
export function statusDevices(model: IVramModel): IDevice[] {
  const { settings, snapshot } = model;
  const hidden = new Set(settings.hiddenDevices);
  const devices = (snapshot?.devices ?? [])
    .filter(device => !hidden.has(device.id))
    .sort((a, b) => (usedPercent(b) ?? -1) - (usedPercent(a) ?? -1));
  return settings.statusBar === 'all' ? devices : devices.slice(0, 1);
}

/** "GPU 0 · 13.8 / 80 GiB"; a click opens the panel. */
export class StatusItem extends WatchingWidget {
  constructor(
    model: IVramModel,
    private _open: () => void
  ) {
    super(model);
    this.id = 'jupyter-vram-status';
    this.addClass('jp-VramStatus');
  }

  protected render(): JSX.Element | null {
    const { model } = this;
    const { settings, connection } = model;
    if (settings.statusBar === 'none') {
      return null;
    }
    const devices = statusDevices(model);
    const lost = connection.status === 'disconnected' || connection.status === 'missing';
    const tooltip = lost
      ? connection.message
      : devices.map(device => `${shortName(device)}: ${device.name}`).join('\n');
    return (
      <button type="button" onClick={this._open} title={tooltip}>
        <vramIcon.react tag="span" width="14px" height="14px" />
        {lost ? (
          <span>memory: no figures</span>
        ) : devices.length ? (
          devices.map(device => <Device key={device.id} device={device} model={model} />)
        ) : (
          <span>memory …</span>
        )}
      </button>
    );
  }
}

function Device(props: { device: IDevice; model: IVramModel }): JSX.Element {
  const { device, model } = props;
  const { unit } = model.settings;
  const how = level(device, model.settings);
  return (
    <span className={`jp-VramStatus-device jp-mod-${how}`}>
      {shortName(device)} · {amount(device.used_bytes, unit)} / {size(device.total_bytes, unit)}
      {how !== 'normal' && ` · ${LEVEL_WORDS[how]}`}
    </span>
  );
}
