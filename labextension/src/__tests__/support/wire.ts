import { readFileSync } from 'fs';
import { join } from 'path';
import { parseMessage } from '../../parse';
import { ISnapshotMessage, ITick } from '../../wire';

/** The text of an example of the HTTP contract; the server's tests hold it to the same files. */
export function exampleText(name: string): string {
  return readFileSync(join(__dirname, '../../../../tests/wire', `${name}.json`), 'utf8');
}

export function snapshotExample(): ISnapshotMessage {
  return parseMessage(exampleText('stream_snapshot')) as ISnapshotMessage;
}

export function tickExample(name: 'tick' | 'tick_changed' = 'tick'): ITick {
  return parseMessage(exampleText(name)) as ITick;
}
