import { readdirSync } from 'fs';
import { join } from 'path';
import { rowsBy } from '../../report/data';
import { parseReport } from '../../report/parse';
import { reportExample, reportJson } from '../support/report';

const names = readdirSync(join(__dirname, '../../../../tests/reports'))
  .filter(file => file.endsWith('.json'))
  .map(file => file.replace('.json', ''));

function problem(value: unknown): string {
  const parsed = parseReport(value);
  return 'problem' in parsed ? parsed.problem : '';
}

/** The gpu example with the value at a path replaced, or removed by `undefined`. */
function changed(path: string, value: unknown): Record<string, any> {
  const json = reportJson('gpu');
  const keys = path.split('.');
  const last = keys.pop()!;
  keys.reduce((at, key) => at[key], json)[last] = value;
  return json;
}

describe('parseReport', () => {
  it.each(names)('takes %s as the kernel writes it, and drops nothing', name => {
    const { schema_version, ...fields } = reportJson(name);
    expect(schema_version[0]).toBe(1);
    expect(reportExample(name)).toEqual(fields);
  });

  it('has examples of all that is optional', () => {
    expect(names).toEqual(expect.arrayContaining(['gpu', 'compared', 'empty']));
    expect(reportExample('gpu').allocator).not.toBeNull();
    expect(reportExample('compared').comparison).not.toBeNull();
  });

  it.each([null, undefined, [], 'text', 7, true])('says that %p is no report', value => {
    expect(problem(value)).toContain('holds no memory report');
  });

  it('says what an object without a version lacks', () => {
    expect(problem({})).toContain('names no schema version');
    expect(problem({ schema_version: '1.0' })).toContain('names no schema version');
  });

  it('refuses another major version, and says what to do', () => {
    expect(problem(changed('schema_version', [2, 3]))).toMatch(/version 2\.3.*update jupyter-vram/);
    expect(problem(changed('schema_version', [0, 9]))).toMatch(/version 0\.9.*run the cell again/);
  });

  it('takes a newer minor version, without what it does not know', () => {
    const newer = { ...changed('schema_version', [1, 99]), news: { of: 'the future' } };
    const parsed = parseReport(newer);
    expect('report' in parsed && parsed.report).toEqual(reportExample('gpu'));
  });

  it.each([
    ['peak_bytes', 'many', 'report.peak_bytes is "many"'],
    ['peak_bytes', undefined, 'report.peak_bytes is missing'],
    ['peak_bytes', 1.5, 'report.peak_bytes is 1.5'],
    ['recorder', 'abacus', 'report.recorder is "abacus"'],
    ['exact', 1, 'report.exact is 1'],
    ['duration_s', null, 'report.duration_s is null'],
    ['detail', 'colour', 'report.detail is "colour"'],
    ['curve.series', {}, 'report.curve.series is {}'],
    ['curve.time_s', [0], 'report.curve has a series of another length'],
    ['modules.0.children.0.bytes', '1', 'report.modules[0].children[0].bytes is "1"'],
    ['kept.0', null, 'report.kept[0] is null'],
    ['source', 'x = 1', 'report.source is "x = 1"']
  ])('says where %s = %p is damaged', (path, value, sentence) => {
    expect(problem(changed(path, value))).toContain(`damaged: ${sentence}`);
  });

  it('does not exhaust the stack on what nests without end', () => {
    const depth = 20_000;
    const text =
      '{"name":"m","class_name":"M","bytes":1,"children":['.repeat(depth) + ']}'.repeat(depth);
    expect(problem(changed('modules', [JSON.parse(text)]))).toContain('nests too deeply');
  });

  it('takes an inherited property for none of the report', () => {
    const json = changed('notes', undefined);
    delete json.notes;
    Object.setPrototypeOf(json, { notes: ['inherited'] });
    const parsed = parseReport(json);
    expect('report' in parsed && parsed.report.notes).toEqual([]);
  });

  it('gives the rows by each dimension', () => {
    const report = reportExample();
    expect(rowsBy(report, 'op')).toBe(report.by_op);
    const total = rowsBy(report, 'category').reduce((sum, row) => sum + row.bytes, 0);
    expect(total).toBe(report.peak_bytes);
  });
});
