import * as React from 'react';
import { IEstimate, IGpuFit, IGrid, Verdict } from '../data';
import { estimateHeadline, estimateInterval, gridHeads, gridRows, largestText } from '../estimate';
import { exactBytes, sizeText } from '../units';
import { Section } from './parts';

const MARKS: Record<Verdict, string> = { fits: '✓', tight: '≈', 'does not fit': '✗' };

/** What a dry run says of the device: the answer first. */
export function Estimate(props: { estimate: IEstimate }): JSX.Element {
  const { estimate } = props;
  return (
    <div className="jp-VramReport-estimate">
      <div className="jp-VramReport-headline">
        <h2 title={exactBytes(estimate.peak_device_bytes)}>{estimateHeadline(estimate)}</h2>
        <span className="jp-Vram-dim">{estimateInterval(estimate)}</span>
      </div>
      {estimate.parts.length > 1 && <PartsBar estimate={estimate} />}
      <div className="jp-VramReport-columns">
        {estimate.parts.length > 1 && <Parts estimate={estimate} />}
        {estimate.fits.length > 0 && <Fits estimate={estimate} />}
      </div>
      {estimate.grid && <Grid grid={estimate.grid} estimate={estimate} />}
      {estimate.assumptions.length > 0 && (
        <Section title="Assumed">
          <ul className="jp-VramReport-notes">
            {estimate.assumptions.map(({ text, effect }, index) => (
              <li key={index}>
                {text} <span className="jp-Vram-dim">{effect}</span>
              </li>
            ))}
          </ul>
        </Section>
      )}
    </div>
  );
}

/** The parts side by side on the scale of the GPU; the table beneath says the same. */
function PartsBar(props: { estimate: IEstimate }): JSX.Element {
  const { estimate } = props;
  const whole = Math.max(estimate.total_bytes ?? 0, estimate.high_bytes, 1);
  return (
    <div className="jp-VramReport-deviceParts" aria-hidden>
      {estimate.parts.map((part, index) => (
        <i
          key={part.name}
          className={`jp-mod-part${index % 5}`}
          style={{ width: `${(100 * part.bytes) / whole}%` }}
          title={`${part.name}: ${sizeText(part.bytes)}`}
        />
      ))}
    </div>
  );
}

function Parts(props: { estimate: IEstimate }): JSX.Element {
  const { parts, peak_device_bytes } = props.estimate;
  return (
    <Section title="From tensors to the device">
      <table>
        <caption className="jp-Vram-hidden">What the device must hold, part by part</caption>
        <tbody>
          {parts.map((part, index) => (
            <tr key={part.name} title={part.source}>
              <th scope="row">
                <i className={`jp-Vram-chip jp-mod-part${index % 5}`} aria-hidden /> {part.name}
              </th>
              <td className="jp-Vram-number" title={exactBytes(part.bytes)}>
                {sizeText(part.bytes)}
              </td>
              <td className="jp-Vram-dim jp-Vram-number">
                {part.low_bytes === part.high_bytes
                  ? 'exact'
                  : `${sizeText(part.low_bytes)} – ${sizeText(part.high_bytes)}`}
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">device</th>
            <td className="jp-Vram-number">{sizeText(peak_device_bytes)}</td>
            <td />
          </tr>
        </tfoot>
      </table>
      <details className="jp-VramReport-sources">
        <summary>Where the figures come from</summary>
        <ul className="jp-VramReport-notes">
          {parts.map(part => (
            <li key={part.name}>
              {part.name}: {part.source}
            </li>
          ))}
        </ul>
      </details>
    </Section>
  );
}

function Fits(props: { estimate: IEstimate }): JSX.Element {
  const { fits, gpu } = props.estimate;
  const variables = [...new Set(fits.flatMap(one => one.largest.map(found => found.variable)))];
  return (
    <Section title="Fits on" className="jp-VramReport-fits">
      <table>
        <caption className="jp-Vram-hidden">GPUs, and whether the cell fits them</caption>
        <thead>
          <tr>
            <th scope="col">GPU</th>
            <th scope="col">memory</th>
            <td />
            {variables.map(name => (
              <th key={name} scope="col">
                largest {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {fits.map(one => (
            <tr key={one.gpu}>
              <th scope="row">{one.gpu === gpu ? <strong>{one.gpu}</strong> : one.gpu}</th>
              <td className="jp-Vram-number" title={exactBytes(one.total_bytes)}>
                {sizeText(one.total_bytes)}
              </td>
              <td>
                <VerdictText fit={one} />
              </td>
              {variables.map(name => (
                <td key={name} className="jp-Vram-number">
                  {largestText(one, name)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

function VerdictText(props: { fit: IGpuFit }): JSX.Element {
  const { verdict } = props.fit;
  return (
    <span className={`jp-VramReport-verdict jp-mod-${verdict.replace(/ /g, '-')}`}>
      {MARKS[verdict]} {verdict}
    </span>
  );
}

function Grid(props: { grid: IGrid; estimate: IEstimate }): JSX.Element {
  const { grid, estimate } = props;
  const [corner, ...columns] = gridHeads(grid);
  const limit = estimate.gpu === null ? null : (estimate.fits[0]?.usable_bytes ?? null);
  return (
    <Section title="What it needs with other values">
      <div className="jp-Vram-scroll">
        <table className="jp-VramReport-grid">
          <caption className="jp-Vram-hidden">Bytes of the device by value</caption>
          <thead>
            <tr>
              <th scope="col">{corner}</th>
              {columns.map(name => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {gridRows(grid).map(({ value, cells }) => (
              <tr key={value}>
                <th scope="row">{value}</th>
                {cells.map((bytes, index) => (
                  <GridCell key={index} bytes={bytes} limit={limit} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {grid.failures.map(text => (
        <p key={text} className="jp-Vram-dim">
          {text}
        </p>
      ))}
    </Section>
  );
}

/** Deeper with the share of the GPU; what does not fit says so by a sign as well. */
function GridCell(props: { bytes: number | null; limit: number | null }): JSX.Element {
  const { bytes, limit } = props;
  if (bytes === null) {
    return <td className="jp-Vram-number">–</td>;
  }
  const share = limit === null ? 0 : bytes / limit;
  const full = share > 1;
  return (
    <td
      className={`jp-Vram-number jp-VramReport-heat ${full ? 'jp-mod-full' : ''}`}
      style={{ ['--vram-share' as string]: Math.min(1, share).toFixed(2) }}
      title={exactBytes(bytes)}
    >
      {sizeText(bytes)}
      {full ? ' ✗' : ''}
    </td>
  );
}
