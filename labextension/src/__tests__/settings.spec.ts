import { readFileSync } from 'fs';
import { join } from 'path';
import { checkedSettings, DEFAULT_SETTINGS } from '../settings';

interface IProperty {
  title: string;
  description: string;
  default: unknown;
  minimum?: number;
  maximum?: number;
  enum?: string[];
}

const schema = JSON.parse(
  readFileSync(join(__dirname, '../../schema/panel.json'), 'utf8')
) as Record<string, unknown> & { properties: Record<string, IProperty> };

describe('the schema', () => {
  it('has the defaults of the code', () => {
    const defaults = Object.entries(schema.properties).map(([name, p]) => [name, p.default]);
    expect(Object.fromEntries(defaults)).toEqual(DEFAULT_SETTINGS);
  });

  it('explains every setting', () => {
    for (const property of Object.values(schema.properties)) {
      expect(property.title).not.toBe('');
      expect(property.description).toMatch(/\.$/);
    }
  });

  it('has the limits of the code', () => {
    for (const [name, { minimum, maximum, enum: allowed }] of Object.entries(schema.properties)) {
      const checked = (value: unknown) =>
        ({ ...checkedSettings({ [name]: value }) })[name as never];
      if (minimum !== undefined && maximum !== undefined) {
        expect(checked(-1e9)).toBe(Math.max(minimum, name === 'criticalPercent' ? 80 : minimum));
        expect(checked(1e9)).toBe(maximum);
      }
      for (const word of allowed ?? []) {
        expect(checked(word)).toBe(word);
      }
    }
  });
});

describe('checkedSettings', () => {
  it('completes what is missing', () => {
    expect(checkedSettings({})).toEqual(DEFAULT_SETTINGS);
    expect(checkedSettings({ unit: 'GB' })).toEqual({ ...DEFAULT_SETTINGS, unit: 'GB' });
  });

  it('takes the default for what makes no sense', () => {
    expect(
      checkedSettings({
        intervalSeconds: '1',
        windowSeconds: NaN,
        warningPercent: null,
        criticalPercent: {},
        unit: 'MiB',
        hiddenDevices: 'host',
        statusBar: 'some',
        side: 'top',
        openOnStart: 'yes'
      })
    ).toEqual(DEFAULT_SETTINGS);
  });

  it('keeps nearly full above filling', () => {
    expect(checkedSettings({ warningPercent: 95, criticalPercent: 90 })).toMatchObject({
      warningPercent: 95,
      criticalPercent: 95
    });
  });

  it('keeps the ids among the hidden devices', () => {
    expect(checkedSettings({ hiddenDevices: ['host', 3, null] }).hiddenDevices).toEqual(['host']);
  });
});
