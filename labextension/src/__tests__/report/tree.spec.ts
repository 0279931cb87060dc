import { IModuleNode } from '../../report/data';
import { afterKey, ITreeState, openAtFirst, visibleRows } from '../../report/tree';

function node(name: string, bytes: number, ...children: IModuleNode[]): IModuleNode {
  return { name, class_name: name.toUpperCase(), bytes, repeats: 1, children };
}

const roots = [
  node('model', 10, node('head', 2), node('body', 8, node('mlp', 5, node('fc', 5)), node('at', 3))),
  node('other', 1, node('leaf', 1))
];

function names(open: Iterable<string>): string[] {
  return visibleRows(roots, new Set(open)).map(row => `${row.level} ${row.node.name}`);
}

/** The active node's name after some keys, and how many rows are in sight. */
function after(start: ITreeState, ...keys: string[]): [string, number] {
  const state = keys.reduce((at, key) => afterKey(key, roots, at) ?? at, start);
  const rows = visibleRows(roots, state.open);
  return [rows.find(row => row.path === state.active)!.node.name, rows.length];
}

const closed: ITreeState = { open: new Set(), active: '0' };

describe('the module tree', () => {
  it('shows what is open, level by level', () => {
    expect(names([])).toEqual(['1 model', '1 other']);
    expect(names(['0', '0/1'])).toEqual([
      '1 model',
      '2 head',
      '2 body',
      '3 mlp',
      '3 at',
      '1 other'
    ]);
    // What is open under a closed node comes back with it.
    expect(names(['0/1'])).toEqual(['1 model', '1 other']);
  });

  it('opens along the largest at first', () => {
    expect([...openAtFirst(roots)]).toEqual(['0', '0/1', '0/1/0']);
    expect(openAtFirst([]).size).toBe(0);
  });

  it('opens, enters, leaves and closes by arrows', () => {
    expect(after(closed, 'ArrowRight')).toEqual(['model', 4]);
    expect(after(closed, 'ArrowRight', 'ArrowRight')).toEqual(['head', 4]);
    expect(after(closed, 'ArrowRight', 'ArrowRight', 'ArrowRight')).toEqual(['head', 4]);
    expect(after(closed, 'ArrowRight', 'ArrowRight', 'ArrowLeft')).toEqual(['model', 4]);
    expect(after(closed, 'ArrowRight', 'ArrowLeft')).toEqual(['model', 2]);
    expect(after(closed, 'ArrowLeft')).toEqual(['model', 2]);
  });

  it('moves through what is in sight', () => {
    expect(after(closed, 'ArrowDown', 'ArrowDown')).toEqual(['other', 2]);
    expect(after(closed, 'End', 'ArrowUp', 'ArrowUp')).toEqual(['model', 2]);
    expect(after(closed, 'End', 'Home')).toEqual(['model', 2]);
  });

  it('toggles by Enter and space, and opens all siblings by an asterisk', () => {
    expect(after(closed, 'Enter')).toEqual(['model', 4]);
    expect(after(closed, 'Enter', ' ')).toEqual(['model', 2]);
    expect(after(closed, '*')).toEqual(['model', 5]);
    const open: ITreeState = { open: new Set(['0']), active: '0/1' };
    expect(after(open, '*')).toEqual(['body', 6]);
  });

  it('leaves other keys alone', () => {
    expect(afterKey('a', roots, closed)).toBeNull();
    expect(afterKey('ArrowDown', [], closed)).toBeNull();
  });
});
