import { readFileSync } from 'fs';
import { join } from 'path';
import { IReport } from '../../report/data';
import { parseReport } from '../../report/parse';

/** The JSON of an example; the kernel side's tests hold it to the same files. */
export function reportJson(name: string): Record<string, any> {
  const path = join(__dirname, '../../../../tests/reports', `${name}.json`);
  return JSON.parse(readFileSync(path, 'utf8')) as Record<string, any>;
}

export function reportExample(name = 'gpu', changes: Partial<IReport> = {}): IReport {
  const parsed = parseReport(reportJson(name));
  if ('problem' in parsed) {
    throw new Error(parsed.problem);
  }
  return { ...parsed.report, ...changes };
}
