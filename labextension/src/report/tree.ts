import { IModuleNode } from './data';

/** A node of the module tree that is in sight. */
export interface ITreeRow {
  /** Places from the root: "0/2/1". */
  path: string;
  node: IModuleNode;
  /** From 1. */
  level: number;
  isOpen: boolean;
  /** Its place among its siblings, from 1. */
  place: number;
  siblings: number;
}

/** The rows in sight, from top to bottom. */
export function visibleRows(roots: IModuleNode[], open: ReadonlySet<string>): ITreeRow[] {
  const rows: ITreeRow[] = [];
  const add = (nodes: IModuleNode[], above: string, level: number) => {
    nodes.forEach((node, index) => {
      const path = above === '' ? `${index}` : `${above}/${index}`;
      const isOpen = node.children.length > 0 && open.has(path);
      rows.push({ path, node, level, isOpen, place: index + 1, siblings: nodes.length });
      if (isOpen) {
        add(node.children, path, level + 1);
      }
    });
  };
  add(roots, '', 1);
  return rows;
}

const OPEN_AT_FIRST = 3;

/** From a single root along the largest children: what a reader would open first. */
export function openAtFirst(roots: IModuleNode[]): Set<string> {
  const open = new Set<string>();
  let [nodes, path] = [roots, ''];
  for (let level = 0; level < OPEN_AT_FIRST && nodes.length > 0; level++) {
    const largest = nodes.reduce((best, node) => (node.bytes > best.bytes ? node : best));
    const index = nodes.indexOf(largest);
    path = path === '' ? `${index}` : `${path}/${index}`;
    if (largest.children.length > 0) {
      open.add(path);
    }
    nodes = largest.children;
  }
  return open;
}

export interface ITreeState {
  open: ReadonlySet<string>;
  active: string;
}

/** What a key does in a tree (WAI-ARIA's pattern); `null` for keys that are none of its. */
export function afterKey(key: string, roots: IModuleNode[], state: ITreeState): ITreeState | null {
  const rows = visibleRows(roots, state.open);
  const index = Math.max(
    0,
    rows.findIndex(row => row.path === state.active)
  );
  const row = rows[index];
  if (!row) {
    return null;
  }
  const to = (place: number): ITreeState => ({
    ...state,
    active: (rows[Math.min(rows.length - 1, Math.max(0, place))] ?? row).path
  });
  const isParent = row.node.children.length > 0;
  switch (key) {
    case 'ArrowDown':
      return to(index + 1);
    case 'ArrowUp':
      return to(index - 1);
    case 'Home':
      return to(0);
    case 'End':
      return to(rows.length - 1);
    case 'ArrowRight':
      return row.isOpen ? to(index + 1) : isParent ? toggled(state, row.path) : state;
    case 'ArrowLeft':
      return row.isOpen ? toggled(state, row.path) : to(parentOf(rows, index));
    case 'Enter':
    case ' ':
      return isParent ? toggled(state, row.path) : state;
    case '*': {
      const above = rows[parentOf(rows, index)]!;
      const siblings = rows.filter(
        other =>
          other.level === row.level && (row.level === 1 || other.path.startsWith(`${above.path}/`))
      );
      return { ...state, open: new Set([...state.open, ...siblings.map(other => other.path)]) };
    }
    default:
      return null;
  }
}

/** Open what is closed, close what is open; it becomes the active one. */
export function toggled(state: ITreeState, path: string): ITreeState {
  const open = new Set(state.open);
  if (!open.delete(path)) {
    open.add(path);
  }
  return { open, active: path };
}

function parentOf(rows: ITreeRow[], index: number): number {
  const level = rows[index]!.level;
  for (let i = index - 1; i >= 0; i--) {
    if (rows[i]!.level < level) {
      return i;
    }
  }
  return index;
}
