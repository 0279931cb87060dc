import * as React from 'react';
import { Connection } from '../tokens';
import { INotice, ISnapshot } from '../wire';

const WORDS = { info: 'Note', warning: 'Warning', error: 'Problem' };

/** What is missing or wrong, each with what to do. Read out when it appears, not at each figure. */
export function Notices(props: {
  snapshot: ISnapshot | null;
  connection: Connection;
}): JSX.Element {
  const { snapshot, connection } = props;
  const all = [...connectionNotices(connection, snapshot !== null), ...(snapshot?.notices ?? [])];
  return (
    <div className="jp-Vram-notices" role="status" aria-live="polite">
      {all.map((notice, i) => (
        // Two GPUs may have the same trouble, so a code is no key.
        <div key={`${notice.code} ${i}`} className={`jp-Vram-notice jp-mod-${notice.severity}`}>
          <span className="jp-Vram-severity">{WORDS[notice.severity] ?? WORDS.info}</span>{' '}
          {notice.message}
        </div>
      ))}
    </div>
  );
}

/** What there is to say of the connection; `hasFigures`: some are still on show. */
export function connectionNotices(connection: Connection, hasFigures: boolean): INotice[] {
  const last = hasFigures ? ' The figures below are the last ones;' : ' The panel is';
  switch (connection.status) {
    case 'disconnected':
      return [
        {
          code: 'disconnected',
          severity: 'warning',
          message: `${connection.message}${last} trying again by itself.`
        }
      ];
    case 'missing':
      return [{ code: 'missing', severity: 'error', message: connection.message }];
    default:
      return [];
  }
}
