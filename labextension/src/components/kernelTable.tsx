import * as React from 'react';
import { age, amount, shortName } from '../format';
import { held } from '../owners';
import { Unit } from '../tokens';
import { IDevice, IKernel, IKernelDevice, ISnapshot } from '../wire';

/** All kernels by what they hold; a click on a name opens its notebook. */
export function KernelTable(props: {
  snapshot: ISnapshot;
  unit: Unit;
  focusedKernelId: string | null;
  open: (path: string) => void;
}): JSX.Element {
  const { snapshot, unit } = props;
  const kernels = [...snapshot.kernels].sort(
    (a, b) => total(b) - total(a) || a.name.localeCompare(b.name)
  );
  if (!kernels.length) {
    return (
      <p className="jp-Vram-reason">No kernel is running: open a notebook to see its memory.</p>
    );
  }
  const allocator = kernels.some(kernel =>
    kernel.devices.some(share => share.allocated_bytes !== null)
  );
  return (
    <div className="jp-Vram-scroll" tabIndex={0} role="region" aria-label="Kernels by memory">
      <table className="jp-Vram-kernels">
        <thead>
          <tr>
            <th scope="col">Notebook</th>
            <th scope="col">Device</th>
            <th scope="col">Holds</th>
            {allocator && <th scope="col">Allocated</th>}
            {allocator && <th scope="col">Reserved</th>}
            {allocator && <th scope="col">Peak</th>}
          </tr>
        </thead>
        {kernels.map(kernel => (
          <KernelRows
            key={kernel.kernel_id}
            kernel={kernel}
            devices={snapshot.devices}
            unit={unit}
            allocator={allocator}
            focused={kernel.kernel_id === props.focusedKernelId}
            open={props.open}
          />
        ))}
      </table>
    </div>
  );
}

function total(kernel: IKernel): number {
  return kernel.devices.reduce((sum, share) => sum + held(share), 0);
}

function KernelRows(props: {
  kernel: IKernel;
  devices: IDevice[];
  unit: Unit;
  allocator: boolean;
  focused: boolean;
  open: (path: string) => void;
}): JSX.Element {
  const { kernel, unit, allocator } = props;
  const shares: (IKernelDevice | null)[] = kernel.devices.length ? kernel.devices : [null];
  const columns = allocator ? 6 : 3;
  return (
    <tbody className={props.focused ? 'jp-mod-focused' : undefined}>
      {shares.map((share, i) => (
        <tr key={share?.id ?? 'none'}>
          {i === 0 && (
            <th scope="rowgroup" rowSpan={shares.length}>
              <Name kernel={kernel} open={props.open} />
            </th>
          )}
          <td>{share ? deviceName(share.id, props.devices) : '–'}</td>
          <td className="jp-Vram-number">{share ? amount(held(share), unit) : '–'}</td>
          {allocator && <td className="jp-Vram-number">{amount(share?.allocated_bytes, unit)}</td>}
          {allocator && <td className="jp-Vram-number">{amount(share?.reserved_bytes, unit)}</td>}
          {allocator && (
            <td className="jp-Vram-number">{amount(share?.peak_allocated_bytes, unit)}</td>
          )}
        </tr>
      ))}
      <tr className="jp-Vram-state">
        <td colSpan={columns}>
          <span className={`jp-Vram-tag jp-mod-${kernel.state}`}>{kernel.state}</span>
          {kernel.report_age_s !== null && (
            <span className={kernel.stale ? 'jp-Vram-stale' : undefined}>
              {kernel.stale ? 'stale: ' : ''}reported {age(kernel.report_age_s)}
              {kernel.report_age_s < 2 ? '' : ' ago'}
            </span>
          )}
          {kernel.reason && <span className="jp-Vram-why">{kernel.reason}</span>}
        </td>
      </tr>
    </tbody>
  );
}

function Name(props: { kernel: IKernel; open: (path: string) => void }): JSX.Element {
  const { kernel } = props;
  const [path, ...others] = kernel.paths;
  if (path === undefined) {
    return <span>{kernel.name}</span>;
  }
  const more = others.length ? ` and ${others.length} more` : '';
  return (
    <button
      type="button"
      className="jp-Vram-link"
      title={kernel.paths.join('\n')}
      aria-label={`Open ${kernel.name}${more}`}
      onClick={() => props.open(path)}
    >
      {kernel.name}
      {more && <span className="jp-Vram-dim">{more}</span>}
    </button>
  );
}

function deviceName(id: string, devices: IDevice[]): string {
  const device = devices.find(item => item.id === id);
  return device ? shortName(device) : 'a device not shown';
}
