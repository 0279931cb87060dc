import * as React from 'react';
import { IVramModel } from '../tokens';
import { IDevice, ISnapshot } from '../wire';
import { DeviceCard } from './deviceCard';

/** The devices that the user has not hidden, the focused notebook's first. */
export function shownDevices(snapshot: ISnapshot, model: IVramModel): IDevice[] {
  const hidden = new Set(model.settings.hiddenDevices);
  const focused = snapshot.kernels.find(kernel => kernel.kernel_id === model.focusedKernelId);
  const own = new Set(focused?.devices.map(share => share.id));
  const shown = snapshot.devices.filter(device => !hidden.has(device.id));
  return [...shown.filter(device => own.has(device.id)), ...shown.filter(d => !own.has(d.id))];
}

export function Devices(props: {
  model: IVramModel;
  snapshot: ISnapshot;
  chartHeight: number;
}): JSX.Element {
  const { model, snapshot } = props;
  const shown = shownDevices(snapshot, model);
  const hidden = snapshot.devices.length - shown.length;
  return (
    <>
      <div className="jp-Vram-cards">
        {shown.map(device => (
          <DeviceCard key={device.id} {...props} device={device} />
        ))}
      </div>
      {!snapshot.devices.length && !snapshot.notices.length && (
        <p className="jp-Vram-reason">The server knows no device: its log says why.</p>
      )}
      {hidden > 0 && (
        <p className="jp-Vram-reason">
          {hidden === 1 ? 'One device is' : `${hidden} devices are`} hidden by your settings.
        </p>
      )}
    </>
  );
}
