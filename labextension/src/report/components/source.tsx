import * as React from 'react';
import { IReport } from '../data';
import { besidesLines } from '../phrases';
import { scaleFor } from '../units';
import { Bar, Figure, Section } from './parts';

/** Longer cells scroll. */
const LONG = 16;

/** The cell's own text, with what each line holds at the peak and what it left behind. */
export function Source(props: { report: IReport }): JSX.Element {
  const { source } = props.report;
  const scroll = React.useRef<HTMLDivElement>(null);
  const rest = besidesLines(props.report);
  const scale = scaleFor(...source.flatMap(line => [line.peak_bytes, line.kept_bytes]));
  const most = source.reduce((top, line) => Math.max(top, line.peak_bytes, line.kept_bytes), 1);
  const isLong = source.length > LONG;

  React.useLayoutEffect(() => {
    const frame = scroll.current;
    const row = frame?.querySelector<HTMLElement>('tr.jp-mod-most');
    if (isLong && frame && row) {
      frame.scrollTop = Math.max(0, row.offsetTop - frame.clientHeight / 2);
    }
  }, [isLong, source]);

  const top = source.find(line => line.peak_bytes > 0 && line.peak_bytes === most);
  return (
    <Section
      title="Your cell"
      className="jp-VramReport-source"
      aside={<span className="jp-VramReport-unit">{scale.unit}</span>}
    >
      <div
        ref={scroll}
        className={isLong ? 'jp-Vram-scroll' : undefined}
        {...(isLong ? { tabIndex: 0, role: 'group', 'aria-label': 'Lines of the cell' } : {})}
      >
        <table>
          <caption className="jp-Vram-hidden">Memory of each line, in {scale.unit}</caption>
          <thead>
            <tr>
              <td />
              <td />
              <td />
              <th scope="col">at peak</th>
              <th scope="col">kept</th>
            </tr>
          </thead>
          <tbody>
            {source.map(line => (
              <tr key={line.number} className={line === top ? 'jp-mod-most' : undefined}>
                <td className="jp-VramReport-lineNumber">{line.number}</td>
                <th scope="row" className="jp-VramReport-code" title={line.text}>
                  {line.text}
                </th>
                <td className="jp-VramReport-bars">
                  {line.peak_bytes > 0 && <Bar share={line.peak_bytes / most} />}
                  {line.kept_bytes > 0 && <Bar share={line.kept_bytes / most} kind="kept" />}
                </td>
                <td>
                  <Figure bytes={line.peak_bytes} scale={scale} blank />
                </td>
                <td className="jp-VramReport-stayed">
                  <Figure bytes={line.kept_bytes} scale={scale} blank />
                </td>
              </tr>
            ))}
          </tbody>
          {rest.length > 0 && (
            <tfoot>
              {rest.map(({ label, bytes }) => (
                <tr key={label}>
                  <td />
                  <th scope="row">{label}</th>
                  <td />
                  <td>
                    <Figure bytes={bytes} scale={scale} />
                  </td>
                  <td />
                </tr>
              ))}
            </tfoot>
          )}
        </table>
      </div>
    </Section>
  );
}
