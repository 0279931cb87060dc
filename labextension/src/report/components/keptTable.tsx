import * as React from 'react';
import { IKept, IReport } from '../data';
import { categoryLabel, codePieces } from '../phrases';
import { exactBytes, sizeText } from '../units';
import { Section } from './parts';

/** What the cell left behind, by the name that holds it, and what to do about it. */
export function KeptTable(props: { report: IReport }): JSX.Element {
  const { kept, retained_bytes } = props.report;
  const rest = retained_bytes - kept.reduce((total, one) => total + one.bytes, 0);
  if (kept.length === 0) {
    return (
      <Section title="Stayed alive">
        <p className="jp-Vram-dim">
          {retained_bytes === 0
            ? 'Nothing that the cell allocated outlived it.'
            : 'Who holds what stayed is not known.'}
        </p>
      </Section>
    );
  }
  return (
    <Section title="Stayed alive">
      <table className="jp-VramReport-kept">
        <caption className="jp-Vram-hidden">What the cell allocated and is still alive</caption>
        <tbody>
          {kept.map((one, index) => (
            <tr key={index}>
              <th scope="row">
                {one.name === null ? (
                  <span className="jp-Vram-dim">no name found that holds it</span>
                ) : (
                  <code>{one.name}</code>
                )}{' '}
                {one.hint !== null && <Hint text={one.hint} />}
                <span className="jp-Vram-why">{origin(one)}</span>
              </th>
              <Size bytes={one.bytes} />
            </tr>
          ))}
          {rest > 0 && (
            <tr>
              <th scope="row" className="jp-Vram-dim">
                others
              </th>
              <Size bytes={rest} />
            </tr>
          )}
        </tbody>
      </table>
    </Section>
  );
}

/** With a unit of its own: a forgotten loss and a forgotten model lie far apart. */
function Size(props: { bytes: number }): JSX.Element {
  return (
    <td className="jp-VramReport-stayed jp-Vram-number" title={exactBytes(props.bytes)}>
      {sizeText(props.bytes)}
    </td>
  );
}

/** "activations · line 3 · 214 blocks". */
function origin(kept: IKept): string {
  const blocks = kept.count === 1 ? '1 block' : `${kept.count.toLocaleString('en')} blocks`;
  const line = kept.line === null ? [] : [`line ${kept.line}`];
  return [categoryLabel(kept.category), ...line, blocks].join(' · ');
}

function Hint(props: { text: string }): JSX.Element {
  return (
    <span className="jp-VramReport-hint">
      {codePieces(props.text).map((piece, index) =>
        piece.code ? <code key={index}>{piece.text}</code> : piece.text
      )}
    </span>
  );
}
