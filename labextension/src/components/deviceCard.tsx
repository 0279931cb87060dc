import * as React from 'react';
import { amount, size, title as titleOf, usedPercent } from '../format';
import { heldOf, IDeviceOwners, IOwner, ownersOf, seriesOf } from '../owners';
import { currentTheme, palette } from '../palette';
import { ISettings, IVramModel } from '../tokens';
import { IDevice, ISnapshot } from '../wire';
import { PastTable } from './pastTable';
import { Timeline } from './timeline';

/** How full a device is, as a class and in words: never by colour alone. */
export function level(device: IDevice, settings: ISettings): 'normal' | 'warning' | 'critical' {
  const percent = usedPercent(device);
  if (percent === null || percent < settings.warningPercent) {
    return 'normal';
  }
  return percent < settings.criticalPercent ? 'warning' : 'critical';
}

export const LEVEL_WORDS = { normal: '', warning: 'filling', critical: 'nearly full' };

/** One device: its total, its bar, its figures, its past, and who holds what. */
export function DeviceCard(props: {
  model: IVramModel;
  snapshot: ISnapshot;
  device: IDevice;
  chartHeight: number;
}): JSX.Element {
  const { model, snapshot, device } = props;
  const { settings, focusedKernelId } = model;
  const owners = ownersOf(snapshot, device, focusedKernelId);
  const taken = device.used_bytes;
  const title = titleOf(device);
  const words = LEVEL_WORDS[level(device, settings)];
  return (
    <section className={`jp-Vram-card jp-mod-${level(device, settings)}`} aria-label={title}>
      <div className="jp-Vram-cardHeader">
        <h3 title={`${device.name}\n${device.id}`}>{title}</h3>
        <span className="jp-Vram-number jp-Vram-total">
          {amount(taken, settings.unit)}
          <span className="jp-Vram-dim"> / {size(device.total_bytes, settings.unit)}</span>
        </span>
      </div>
      <Bar owners={owners} device={device} settings={settings} />
      <Vitals device={device} words={words} />
      {device.stale && (
        <p className="jp-Vram-reason">
          {taken === null
            ? (device.reasons.used_bytes ?? 'The device does not answer: nothing is known of it.')
            : 'The device does not answer: these are its last figures.'}
        </p>
      )}
      <Past {...props} title={title} />
      <Owners owners={owners} device={device} model={model} snapshot={snapshot} />
    </section>
  );
}

function Past(props: {
  model: IVramModel;
  snapshot: ISnapshot;
  device: IDevice;
  chartHeight: number;
  title: string;
}): JSX.Element | null {
  const { model, snapshot, device } = props;
  const history = model.histories.get(device.id);
  if (!history) {
    return null;
  }
  const focused = model.focusedKernelId;
  const shown = {
    history,
    series: seriesOf(history, focused),
    unit: model.settings.unit,
    windowSeconds: model.settings.windowSeconds,
    now: snapshot.time
  };
  return (
    <>
      <Timeline
        id={device.id}
        label={`Memory of ${props.title} over time; the same figures are in the tables below.`}
        chart={{
          ...shown,
          cells: focused === null ? [] : (history.kernels[focused]?.cells ?? []),
          totalBytes: device.total_bytes,
          height: props.chartHeight
        }}
      />
      <PastTable {...shown} title={props.title} />
    </>
  );
}

function Bar(props: {
  owners: IDeviceOwners;
  device: IDevice;
  settings: ISettings;
}): JSX.Element | null {
  const { owners, device } = props;
  if (!device.total_bytes) {
    return null;
  }
  const bands = [...owners.own, ...owners.notebooks, ...owners.rest].filter(owner => owner.bytes);
  const text = bands.map(band => `${band.label} ${size(band.bytes, props.settings.unit)}`);
  return (
    <div className="jp-Vram-bar" role="img" aria-label={text.join(', ') || 'nothing in use'}>
      {bands.map(band => (
        <i
          key={band.key}
          title={`${band.label}: ${size(band.bytes, props.settings.unit)}`}
          style={{
            width: `${(100 * (band.bytes ?? 0)) / device.total_bytes!}%`,
            background: colorOf(band)
          }}
        />
      ))}
    </div>
  );
}

function colorOf(owner: IOwner): string {
  return palette.color(owner.kind, owner.kernelId, currentTheme());
}

/** Utilisation, temperature and power; one that the device does not tell says why. */
function Vitals(props: { device: IDevice; words: string }): JSX.Element | null {
  const { device, words } = props;
  if (device.kind === 'host' && device.utilization_percent === null) {
    return words ? <p className="jp-Vram-vitals">{words}</p> : null;
  }
  const limit = device.power_limit_w === null ? '' : ` of ${device.power_limit_w.toFixed(0)}`;
  const vitals: [string, string | null, string | undefined][] = [
    ['busy', figure(device.utilization_percent, ' %'), device.reasons.utilization_percent],
    ['', figure(device.temperature_c, ' °C'), device.reasons.temperature_c],
    ['', figure(device.power_w, ` W${limit}`), device.reasons.power_w]
  ];
  const names = ['Utilisation', 'Temperature', 'Power'];
  return (
    <p className="jp-Vram-vitals jp-Vram-number">
      {words && <span className="jp-Vram-level">{words}</span>}
      {vitals.map(([suffix, text, reason], i) => (
        <span key={names[i]} title={text === null ? reason : names[i]}>
          {text === null ? `${names[i]} –` : `${text} ${suffix}`.trim()}
          {text === null && reason && <span className="jp-Vram-hidden">: {reason}</span>}
        </span>
      ))}
    </p>
  );
}

function figure(value: number | null, unit: string): string | null {
  return value === null ? null : `${value.toFixed(0)}${unit}`;
}

/** The legend and the text beside the chart in one: every band with its figure. */
function Owners(props: {
  owners: IDeviceOwners;
  device: IDevice;
  model: IVramModel;
  snapshot: ISnapshot;
}): JSX.Element {
  const { owners, device, model, snapshot } = props;
  const { unit } = model.settings;
  const focused = snapshot.kernels.find(kernel => kernel.kernel_id === model.focusedKernelId);
  const ownTotal = focused ? heldOf(focused, device) : null;
  const only = owners.own.length === 1 ? owners.own[0] : undefined;
  return (
    <table className="jp-Vram-owners">
      <caption className="jp-Vram-hidden">
        Who holds what of {device.name}, in {unit}
      </caption>
      <thead className="jp-Vram-hidden">
        <tr>
          <th scope="col">Holder</th>
          <th scope="col">{unit}</th>
        </tr>
      </thead>
      <tbody>
        {focused && (ownTotal !== 0 || snapshot.devices.length === 1) && (
          <tr
            className="jp-Vram-own"
            title={ownTotal === null ? device.reasons.other_bytes : undefined}
          >
            <th scope="row">
              {only && <Chip color={colorOf(only)} />}
              This notebook <span className="jp-Vram-dim">{focused.name}</span>
              {only && <span className="jp-Vram-dim"> · {only.label}</span>}
            </th>
            <td className="jp-Vram-number">{amount(ownTotal, unit)}</td>
          </tr>
        )}
        {!only && owners.own.map(owner => <Row key={owner.key} owner={owner} unit={unit} indent />)}
        {[...owners.notebooks, ...owners.rest].map(owner => (
          <Row key={owner.key} owner={owner} unit={unit} />
        ))}
        <tr title={owners.free.hint ?? undefined}>
          <th scope="row">
            <span className="jp-Vram-chip jp-mod-free" aria-hidden="true" />
            free
          </th>
          <td className="jp-Vram-number">{amount(owners.free.bytes, unit)}</td>
        </tr>
      </tbody>
    </table>
  );
}

function Row(props: { owner: IOwner; unit: ISettings['unit']; indent?: boolean }): JSX.Element {
  const { owner } = props;
  const why = owner.kind === 'unattributed' || owner.bytes === null ? owner.hint : null;
  return (
    <tr title={owner.hint ?? undefined} className={props.indent ? 'jp-mod-indented' : undefined}>
      <th scope="row">
        <Chip color={colorOf(owner)} />
        {owner.label}
        {why && <span className="jp-Vram-why">{why}</span>}
      </th>
      <td className="jp-Vram-number">{amount(owner.bytes, props.unit)}</td>
    </tr>
  );
}

function Chip(props: { color: string }): JSX.Element {
  return <span className="jp-Vram-chip" style={{ background: props.color }} aria-hidden="true" />;
}
