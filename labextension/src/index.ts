import { badgePlugin } from './plugins/badge';
import { dashboardPlugin } from './plugins/dashboard';
import { focusPlugin } from './plugins/focus';
import { modelPlugin } from './plugins/model';
import { panelPlugin } from './plugins/panel';
import { reportPlugin } from './plugins/report';
import { settingsPlugin } from './plugins/settings';
import { statusPlugin } from './plugins/status';

export { IVramModel } from './tokens';

export default [
  modelPlugin,
  settingsPlugin,
  focusPlugin,
  panelPlugin,
  dashboardPlugin,
  statusPlugin,
  reportPlugin,
  badgePlugin
];
