import * as React from 'react';
import { age, amount, shortName } from '../format';
import { held } from '../owners';
import { Unit } from '../tokens';
import { IDevice, IKernel, IKernelDevice, ISnapshot } from '../wire';

interface ITableProps {
  snapshot: ISnapshot;
  unit: Unit;
  focusedKernelId: string | null;
  open: (path: string) => void;
  /** There is room for the allocator's figures in columns of their own. */
  wide: boolean;
}

/** All kernels by what they hold; a click on a name opens its notebook. */
export function KernelTable(props: ITableProps): JSX.Element {
  const { snapshot, unit, wide } = props;
  const kernels = [...snapshot.kernels].sort(
    (a, b) => total(b) - total(a) || a.name.localeCompare(b.name)
  );
  if (!kernels.length) {
    return (
      <p className="jp-Vram-reason">No kernel is running: open a notebook to see its memory.</p>
    );
  }
  return (
    <table className="jp-Vram-kernels">
      <caption className="jp-Vram-hidden">Kernels by memory, in {unit}</caption>
      <thead>
        <tr>
          <th scope="col">Notebook</th>
          <th scope="col">Device</th>
          {wide && <th scope="col">Allocated</th>}
          {wide && <th scope="col">Reserved</th>}
          {wide && <th scope="col">Peak</th>}
          <th scope="col">Holds</th>
        </tr>
      </thead>
      {kernels.map(kernel => (
        <KernelRows key={kernel.kernel_id} {...props} kernel={kernel} />
      ))}
    </table>
  );
}

function total(kernel: IKernel): number {
  return kernel.devices.reduce((sum, share) => sum + held(share), 0);
}

function KernelRows(props: ITableProps & { kernel: IKernel }): JSX.Element {
  const { kernel, unit, wide } = props;
  const shares: (IKernelDevice | null)[] = kernel.devices.length ? kernel.devices : [null];
  return (
    <tbody className={kernel.kernel_id === props.focusedKernelId ? 'jp-mod-focused' : undefined}>
      {shares.map((share, i) => (
        <tr key={share?.id ?? 'none'}>
          {i === 0 && (
            <th scope="rowgroup" rowSpan={shares.length}>
              <Name kernel={kernel} open={props.open} />
            </th>
          )}
          <td>{share ? deviceName(share.id, props.snapshot.devices) : '–'}</td>
          {wide && <td className="jp-Vram-number">{amount(share?.allocated_bytes, unit)}</td>}
          {wide && <td className="jp-Vram-number">{amount(share?.reserved_bytes, unit)}</td>}
          {wide && <td className="jp-Vram-number">{amount(share?.peak_allocated_bytes, unit)}</td>}
          <td className="jp-Vram-number">
            {share && Object.keys(share.parts).length ? amount(held(share), unit) : '–'}
          </td>
        </tr>
      ))}
      <tr className="jp-Vram-state">
        <td colSpan={wide ? 6 : 3}>
          <span className={`jp-Vram-tag jp-mod-${kernel.state}`}>{kernel.state}</span>
          {!wide && <Allocator kernel={kernel} unit={unit} />}
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

/** The allocator's figures in words, where columns have no room. */
function Allocator(props: { kernel: IKernel; unit: Unit }): JSX.Element {
  const { kernel, unit } = props;
  const shares = kernel.devices.filter(share => share.allocated_bytes !== null);
  return (
    <>
      {shares.map(share => (
        <span key={share.id} className="jp-Vram-number">
          allocated {amount(share.allocated_bytes, unit)} · reserved{' '}
          {amount(share.reserved_bytes, unit)} · peak {amount(share.peak_allocated_bytes, unit)}
          {' · '}
        </span>
      ))}
    </>
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
  return device ? shortName(device) : 'not shown';
}
