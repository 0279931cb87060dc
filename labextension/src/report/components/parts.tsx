import * as React from 'react';
import { categoryColor } from '../../palette';
import { exactBytes, figure, IScale } from '../units';
import { useTheme } from '../theme';

/** A figure in its column's unit; the exact bytes on hover. Nothing where there is nothing. */
export function Figure(props: {
  bytes: number;
  scale: IScale;
  blank?: boolean;
  className?: string;
}): JSX.Element {
  const { bytes, scale } = props;
  return (
    <span className={`jp-Vram-number ${props.className ?? ''}`} title={exactBytes(bytes)}>
      {bytes === 0 && props.blank ? '' : figure(bytes, scale)}
    </span>
  );
}

/** A share of the largest; the figure beside it says the same. */
export function Bar(props: { share: number; kind?: 'kept' }): JSX.Element {
  const width = `${Math.min(100, Math.max(0, 100 * props.share))}%`;
  return (
    <span className={`jp-VramReport-bar ${props.kind ? `jp-mod-${props.kind}` : ''}`} aria-hidden>
      <i style={{ width }} />
    </span>
  );
}

/** The colour of a category. */
export function Chip(props: { category: string }): JSX.Element {
  const { kind } = useTheme();
  return (
    <i
      className="jp-Vram-chip"
      style={{ background: categoryColor(props.category, kind) }}
      aria-hidden
    />
  );
}

export function Section(props: {
  title: React.ReactNode;
  aside?: React.ReactNode;
  className?: string;
  children: React.ReactNode;
}): JSX.Element {
  return (
    <section className={`jp-VramReport-section ${props.className ?? ''}`}>
      <div className="jp-VramReport-sectionHeader">
        <h3>{props.title}</h3>
        {props.aside}
      </div>
      {props.children}
    </section>
  );
}

/** One of a few; the arrow keys move between them, as in any group of radio buttons. */
export function Choice<T extends string>(props: {
  label: string;
  options: readonly T[];
  value: T;
  onChange: (value: T) => void;
}): JSX.Element {
  const { options, value, onChange } = props;
  const group = React.useRef<HTMLDivElement>(null);
  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (step === undefined) {
      return;
    }
    event.preventDefault();
    const next = (options.indexOf(value) + step + options.length) % options.length;
    onChange(options[next]!);
    group.current?.querySelectorAll<HTMLElement>('[role=radio]')[next]?.focus();
  };
  return (
    <div
      ref={group}
      className="jp-VramReport-choice"
      role="radiogroup"
      aria-label={props.label}
      onKeyDown={onKeyDown}
    >
      {options.map(option => (
        <button
          key={option}
          type="button"
          role="radio"
          aria-checked={option === value}
          tabIndex={option === value ? 0 : -1}
          onClick={() => onChange(option)}
        >
          {option}
        </button>
      ))}
    </div>
  );
}
