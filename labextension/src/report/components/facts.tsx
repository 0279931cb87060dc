import * as React from 'react';
import { IAllocator, IReport } from '../data';
import { scaleFor, sizeText } from '../units';
import { Figure, Section } from './parts';

/** What stands below the figures: the allocator, other devices, what a reader should know. */
export function Facts(props: { report: IReport }): JSX.Element {
  const { report } = props;
  const { allocator, other_devices, notes } = report;
  return (
    <div className="jp-VramReport-columns">
      {allocator && <AllocatorFacts report={report} allocator={allocator} />}
      <div>
        {other_devices.length > 0 && <OtherDevices report={report} />}
        {notes.length > 0 && (
          <Section title="Notes">
            <ul className="jp-VramReport-notes">
              {notes.map((note, index) => (
                <li key={index}>{note}</li>
              ))}
            </ul>
          </Section>
        )}
      </div>
    </div>
  );
}

interface IFact {
  term: string;
  value: string;
  why?: string;
}

/** The figures that the recording has; unknown ones are left out. */
export function allocatorFacts(allocator: IAllocator, report: IReport): IFact[] {
  const { reserved_bytes, inactive_split_bytes, fragmentation, alloc_retries, ooms } = allocator;
  const facts: IFact[] = [{ term: 'reserved', value: sizeText(reserved_bytes) }];
  const add = (bytes: number | null, term: string, why?: string) =>
    bytes === null || facts.push({ term, value: sizeText(bytes), why });
  if (allocator.peak_reserved_bytes !== reserved_bytes) {
    add(allocator.peak_reserved_bytes, 'reserved at most');
  }
  if (fragmentation !== null) {
    facts.push({
      term: 'fragmentation',
      value: `${(100 * fragmentation).toFixed(1)} %`,
      why:
        inactive_split_bytes === null
          ? 'inactive split ÷ reserved'
          : `inactive split ${sizeText(inactive_split_bytes)} ÷ reserved ${sizeText(reserved_bytes)}`
    });
  } else {
    add(inactive_split_bytes, 'inactive split');
  }
  add(report.peak_requested_bytes, 'requested at the peak', 'what the blocks had been asked for');
  add(allocator.private_pool_bytes, 'private pools', 'kept for CUDA graphs');
  if (alloc_retries !== null) {
    facts.push({ term: 'retries', value: alloc_retries.toLocaleString('en') });
  }
  if (ooms !== null && ooms > 0) {
    facts.push({ term: 'out of memory', value: `${ooms.toLocaleString('en')} ×` });
  }
  return facts;
}

function AllocatorFacts(props: { report: IReport; allocator: IAllocator }): JSX.Element {
  return (
    <Section title="Allocator, at the end">
      <dl className="jp-VramReport-facts">
        {allocatorFacts(props.allocator, props.report).map(({ term, value, why }) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>
              <span className="jp-Vram-number">{value}</span>
              {why !== undefined && <span className="jp-Vram-why">{why}</span>}
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

function OtherDevices(props: { report: IReport }): JSX.Element {
  const { other_devices } = props.report;
  const scale = scaleFor(...other_devices.map(one => one.peak_bytes));
  return (
    <Section title="Other devices">
      <table className="jp-VramReport-devices">
        <caption className="jp-Vram-hidden">
          Other devices that the cell used, in {scale.unit}
        </caption>
        <thead>
          <tr>
            <th scope="col">{scale.unit}</th>
            <th scope="col">start</th>
            <th scope="col">peak</th>
            <th scope="col">end</th>
          </tr>
        </thead>
        <tbody>
          {other_devices.map(one => (
            <tr key={one.device}>
              <th scope="row">{one.device}</th>
              {[one.start_bytes, one.peak_bytes, one.end_bytes].map((bytes, index) => (
                <td key={index}>
                  <Figure bytes={bytes} scale={scale} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}
