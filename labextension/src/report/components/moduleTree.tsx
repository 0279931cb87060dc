import * as React from 'react';
import { IReport } from '../data';
import { useRemembered } from '../memory';
import { afterKey, ITreeRow, ITreeState, openAtFirst, toggled, visibleRows } from '../tree';
import { IScale, percent, scaleFor } from '../units';
import { Bar, Figure, Section } from './parts';

/** The modules at the peak; each level opens by a click or by the keys of a tree. */
export function ModuleTree(props: { report: IReport }): JSX.Element {
  const { modules, peak_bytes } = props.report;
  const tree = React.useRef<HTMLUListElement>(null);
  const [state, setState] = useRemembered<ITreeState>('modules', () => ({
    open: openAtFirst(modules),
    active: '0'
  }));
  const scale = scaleFor(...modules.map(node => node.bytes));
  const inModules = modules.reduce((total, node) => total + node.bytes, 0);

  const focusOn = (path: string) =>
    tree.current?.querySelector<HTMLElement>(`[data-path="${path}"]`)?.focus();
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const next = afterKey(event.key, modules, state);
    if (next) {
      event.preventDefault();
      setState(next);
      focusOn(next.active);
    }
  };

  return (
    <Section
      title="Modules, at the peak"
      aside={<span className="jp-VramReport-unit">{scale.unit}</span>}
    >
      <ul
        ref={tree}
        className="jp-VramReport-tree"
        role="tree"
        aria-label="Modules, at the peak"
        onKeyDown={onKeyDown}
      >
        {visibleRows(modules, state.open).map(row => (
          <TreeRow
            key={row.path}
            row={row}
            scale={scale}
            peakBytes={peak_bytes}
            isActive={row.path === state.active}
            onClick={() =>
              setState(
                row.node.children.length > 0
                  ? toggled(state, row.path)
                  : { ...state, active: row.path }
              )
            }
          />
        ))}
      </ul>
      {peak_bytes > inModules && inModules > 0 && (
        <p className="jp-VramReport-outside jp-Vram-dim">
          <span>outside of modules</span> <Figure bytes={peak_bytes - inModules} scale={scale} />
        </p>
      )}
    </Section>
  );
}

function TreeRow(props: {
  row: ITreeRow;
  scale: IScale;
  peakBytes: number;
  isActive: boolean;
  onClick: () => void;
}): JSX.Element {
  const { row, scale, peakBytes } = props;
  const { node } = row;
  return (
    <li
      role="treeitem"
      data-path={row.path}
      tabIndex={props.isActive ? 0 : -1}
      aria-level={row.level}
      aria-posinset={row.place}
      aria-setsize={row.siblings}
      aria-expanded={node.children.length > 0 ? row.isOpen : undefined}
      aria-selected={props.isActive}
      className={node.children.length > 0 ? 'jp-mod-parent' : undefined}
      style={{ paddingLeft: 12 * (row.level - 1) }}
      title={`${node.name}: ${node.class_name}, ${percent(node.bytes, peakBytes)} of the peak`}
      onClick={props.onClick}
    >
      <i className={`jp-VramReport-twisty ${row.isOpen ? 'jp-mod-open' : ''}`} aria-hidden />
      <span className="jp-VramReport-module">
        {node.name}
        {node.repeats > 1 && <span className="jp-Vram-dim"> × {node.repeats}</span>}{' '}
        <span className="jp-Vram-dim">{node.class_name}</span>
      </span>
      <Bar share={node.bytes / Math.max(1, peakBytes)} />
      <Figure bytes={node.bytes} scale={scale} />
    </li>
  );
}
