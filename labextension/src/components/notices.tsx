import * as React from 'react';
import { Connection } from '../tokens';
import { INotice } from '../wire';

const WORDS = { info: 'Note', warning: 'Warning', error: 'Problem' };

/** What is missing or wrong, each with what to do. Read out when it appears, not at each figure. */
export function Notices(props: { notices: INotice[]; connection: Connection }): JSX.Element {
  const all = [...ofConnection(props.connection), ...props.notices];
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

function ofConnection(connection: Connection): INotice[] {
  switch (connection.status) {
    case 'disconnected':
      return [
        {
          code: 'disconnected',
          severity: 'warning',
          message: `${connection.message} The figures below are the last ones; trying again by itself.`
        }
      ];
    case 'missing':
      return [{ code: 'missing', severity: 'error', message: connection.message }];
    default:
      return [];
  }
}
