import { RenderMimeRegistry } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { loadPlotly } from '../../charts/plotly';
import { reportPlugin } from '../../plugins/report';
import { MIME_TYPE } from '../../report/mime';
import { ReportWidget } from '../../report/widget';
import { reportJson } from '../support/report';

jest.mock('../../charts/plotly');

const plotly = { react: jest.fn(() => Promise.resolve()), purge: jest.fn() };
const WIDTH = 640;
/** What the page's observers were given to call. */
let comesIntoSight: (() => void)[] = [];

beforeAll(() => {
  (loadPlotly as jest.Mock).mockImplementation(() => Promise.resolve(plotly));
  Object.defineProperty(HTMLElement.prototype, 'clientWidth', { get: () => WIDTH });
  window.ResizeObserver = class {
    constructor(private _resized: () => void) {}
    observe() {
      this._resized();
    }
    disconnect() {}
  } as any;
  window.IntersectionObserver = class {
    constructor(seen: (entries: object[]) => void) {
      comesIntoSight.push(() => seen([{ isIntersecting: true }]));
    }
    observe() {}
    disconnect() {}
  } as any;
});

beforeEach(() => {
  comesIntoSight = [];
  jest.clearAllMocks();
});

afterEach(() => {
  document.body.replaceChildren();
});

const settled = () => new Promise(resolve => setTimeout(resolve, 20));

function model(data: unknown) {
  return {
    trusted: false,
    data: { [MIME_TYPE]: data },
    metadata: {},
    setData: () => undefined
  } as any;
}

async function shown(data: unknown): Promise<ReportWidget> {
  const widget = new ReportWidget();
  Widget.attach(widget, document.body);
  await widget.renderModel(model(data));
  await settled();
  return widget;
}

async function press(target: Element, key: string): Promise<KeyboardEvent> {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
  target.dispatchEvent(event);
  await settled();
  return event;
}

const all = (widget: Widget, selector: string) => [...widget.node.querySelectorAll(selector)];
const one = (widget: Widget, selector: string) => widget.node.querySelector<HTMLElement>(selector)!;
const radio = (widget: Widget, group: string, name: string) =>
  all(widget, `[aria-label="${group}"] [role=radio]`).find(
    button => button.textContent === name
  ) as HTMLElement;

describe('the renderer', () => {
  it('is preferred to HTML, in untrusted notebooks too', () => {
    const registry = new RenderMimeRegistry();
    registry.addFactory(
      { safe: true, mimeTypes: ['text/html'], createRenderer: () => new ReportWidget() },
      50
    );
    void reportPlugin.activate({} as any, registry);
    const bundle = { [MIME_TYPE]: {}, 'text/html': '', 'text/plain': '' };
    expect(registry.preferredMimeType(bundle, 'ensure')).toBe(MIME_TYPE);
    expect(registry.createRenderer(MIME_TYPE)).toBeInstanceOf(ReportWidget);
  });

  it.each([
    ['gpu', 'Peak 7.64 GiB'],
    ['compared', 'tensor bytes, on the CPU'],
    ['compared', 'The cell ended with KeyboardInterrupt'],
    ['compared', '2.00 GiB less at the peak than plain (−21 %).'],
    ['empty', 'This cell allocated nothing on the CPU.'],
    ['gpu', 'inactive split 412 MiB ÷ reserved 9.00 GiB'],
    ['gpu', 'cuda:1']
  ])('shows of %s: %s', async (name, text) => {
    expect((await shown(reportJson(name))).node.textContent).toContain(text);
  });

  it('says what is wrong with what is no report, and never throws', async () => {
    expect((await shown(null)).node.textContent).toContain('holds no memory report');
    expect((await shown({ schema_version: [1, 0] })).node.textContent).toContain('is missing');
  });

  it('says that the recording was truncated, and that the peak is a lower bound', async () => {
    const widget = await shown({ ...reportJson('gpu'), truncated: true, exact: false });
    expect(widget.node.textContent).toContain('outgrew its buffer');
    expect(one(widget, 'h2').textContent).toBe('Peak ≥ 7.64 GiB');
  });

  it('sets hostile text as text', async () => {
    const { node } = await shown(reportJson('compared'));
    expect(node.querySelectorAll('img, script, a, iframe').length).toBe(0);
    expect(node.textContent).toContain('<img src=x onerror="alert(1)">');
    expect(node.textContent).toContain('<script>alert(1)</script>');
  });

  it('fetches and draws Plotly when the chart comes into sight, and cleans up after it', async () => {
    const widget = await shown(reportJson('gpu'));
    expect(loadPlotly).not.toHaveBeenCalled();
    comesIntoSight.forEach(call => call());
    await settled();
    expect(plotly.react).toHaveBeenCalledTimes(1);
    const [node, , layout] = plotly.react.mock.calls[0] as any[];
    expect(layout.width).toBe(WIDTH);
    document.body.dataset.jpThemeName = 'Another';
    await settled();
    expect(plotly.react).toHaveBeenCalledTimes(2);
    widget.dispose();
    expect(plotly.purge).toHaveBeenCalledWith(node);
    document.body.dataset.jpThemeName = 'And another';
    await settled();
    expect(plotly.react).toHaveBeenCalledTimes(2);
  });

  it('needs no Plotly for a cell that allocated nothing', async () => {
    await shown(reportJson('empty'));
    expect(comesIntoSight).toEqual([]);
  });

  it('keeps the figures where the chart cannot be loaded', async () => {
    (loadPlotly as jest.Mock).mockImplementationOnce(() => Promise.reject(new Error('offline')));
    const widget = await shown(reportJson('gpu'));
    comesIntoSight.forEach(call => call());
    await settled();
    expect(widget.node.textContent).toContain('The chart could not be loaded');
    expect(widget.node.textContent).toContain('activations 4.77');
  });
});

describe('the controls', () => {
  it('move the legend in time, and back to the peak', async () => {
    const widget = await shown(reportJson('gpu'));
    const slider = one(widget, '[role=slider]');
    const legend = one(widget, '.jp-VramReport-legend');
    expect(legend.textContent).toContain('At the peak, 0.92 s · backward');
    expect(slider.getAttribute('aria-valuetext')).toMatch(/^0\.92 s, backward: 7\.64 GiB; act/);
    await press(slider, 'Home');
    expect(legend.textContent).toContain('At 0.00 s');
    expect(slider.getAttribute('aria-valuenow')).toBe('0');
    await press(slider, 'Escape');
    expect(legend.textContent).toContain('At the peak');
  });

  it('open the tree by keys and clicks, one row at a time in the tab order', async () => {
    const widget = await shown(reportJson('gpu'));
    const before = all(widget, '[role=treeitem]').length;
    await press(one(widget, '[role=tree]'), 'ArrowLeft');
    expect(all(widget, '[role=treeitem]').length).toBe(1);
    const root = one(widget, '[role=treeitem]');
    expect(root.getAttribute('aria-expanded')).toBe('false');
    root.click();
    await settled();
    expect(all(widget, '[role=treeitem]').length).toBe(before);
    expect(all(widget, '[role=treeitem][tabindex="0"]').length).toBe(1);
  });

  it('choose by what the peak is taken apart', async () => {
    const widget = await shown(reportJson('gpu'));
    radio(widget, 'The peak, by', 'op').click();
    await settled();
    expect(one(widget, '.jp-VramReport-parts').textContent).toContain('aten::linear');
    await press(radio(widget, 'The peak, by', 'op'), 'ArrowRight');
    expect(radio(widget, 'The peak, by', 'category').getAttribute('aria-checked')).toBe('true');
    expect(document.activeElement).toBe(radio(widget, 'The peak, by', 'category'));
  });

  it('begin with the dimension that was asked for', async () => {
    const widget = await shown({ ...reportJson('gpu'), detail: 'module' });
    expect(radio(widget, 'The peak, by', 'module').getAttribute('aria-checked')).toBe('true');
  });

  it('show the largest parts first, and all on request', async () => {
    const by_op = Array.from({ length: 30 }, (_, i) => ({ name: `op ${i}`, bytes: 1, count: 1 }));
    const widget = await shown({ ...reportJson('gpu'), by_op, detail: 'op' });
    const rows = () => all(widget, '.jp-VramReport-parts tbody tr').length;
    expect(rows()).toBe(8);
    const more = all(widget, 'button').find(button => button.textContent === 'Show all 30');
    (more as HTMLElement).click();
    await settled();
    expect(rows()).toBe(30);
  });

  it('compare by line', async () => {
    const widget = await shown(reportJson('compared'));
    radio(widget, 'Changes by', 'line').click();
    await settled();
    const text = one(widget, '.jp-VramReport-comparison').textContent;
    expect(text).toContain('out = model(**batch)5.433.43−2.00');
  });

  it('keep their keys from the notebook, not its shortcuts', async () => {
    const widget = await shown(reportJson('gpu'));
    const heard: string[] = [];
    const listen = (event: KeyboardEvent) => heard.push(event.key);
    document.addEventListener('keydown', listen);
    const tree = one(widget, '[role=tree]');
    await press(tree, 'ArrowDown');
    await press(tree, 's');
    document.removeEventListener('keydown', listen);
    expect(heard).toEqual(['s']);
  });

  it('stay as they were when the output is scrolled away and back, or drawn again', async () => {
    const data = reportJson('gpu');
    const widget = await shown(data);
    radio(widget, 'The peak, by', 'op').click();
    await settled();
    Widget.detach(widget);
    Widget.attach(widget, document.body);
    await settled();
    expect(radio(widget, 'The peak, by', 'op').getAttribute('aria-checked')).toBe('true');
    await widget.renderModel(model({ ...data }));
    expect(radio(widget, 'The peak, by', 'op').getAttribute('aria-checked')).toBe('true');
    await widget.renderModel(model({ ...data, device: 'cuda:7' }));
    await settled();
    expect(radio(widget, 'The peak, by', 'category').getAttribute('aria-checked')).toBe('true');
    expect(widget.node.textContent).toContain('cuda:7');
  });
});
