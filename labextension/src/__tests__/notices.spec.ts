import { connectionNotices } from '../components/notices';
import { Connection } from '../tokens';

const LOST: Connection = { status: 'disconnected', retryAt: 0, message: 'Nobody answers.' };

const said = (connection: Connection, hasFigures: boolean) =>
  connectionNotices(connection, hasFigures).map(notice => notice.message);

describe('what is said of the connection', () => {
  it.each(['connecting', 'connected'] as const)('is nothing while %s', status => {
    expect(said({ status }, false)).toEqual([]);
  });

  it('calls the figures that are left the last ones', () => {
    expect(said(LOST, true)).toEqual([
      'Nobody answers. The figures below are the last ones; trying again by itself.'
    ]);
  });

  it('speaks of no figures where there are none', () => {
    expect(said(LOST, false)).toEqual(['Nobody answers. The panel is trying again by itself.']);
  });

  it('says what to do where the server has no such route', () => {
    expect(said({ status: 'missing', message: 'Install it.' }, false)).toEqual(['Install it.']);
  });
});
