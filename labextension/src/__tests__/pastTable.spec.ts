import { sampledRows } from '../components/pastTable';
import { snapshotExample } from './support/wire';

const past = Object.values(snapshotExample().history)[0]!;

function every(count: number) {
  return { ...past, time: Array.from({ length: count }, (_, i) => 1000 + i) };
}

describe('sampledRows', () => {
  it('begins with the latest and stays in the window', () => {
    expect(sampledRows(every(5), 2.5, 1004)).toEqual([4, 3, 2]);
  });

  it('spreads a dozen rows over a long past', () => {
    const rows = sampledRows(every(600), 600, 1599);
    expect(rows.length).toBeLessThanOrEqual(12);
    expect(rows[0]).toBe(599);
    expect(rows[rows.length - 1]).toBeLessThan(60);
  });

  it('is empty where nothing was measured', () => {
    expect(sampledRows(every(0), 60, 1000)).toEqual([]);
    expect(sampledRows(every(5), 60, 9000)).toEqual([]);
  });
});
