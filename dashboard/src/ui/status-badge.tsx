import './status-badge.css';

export type Tone = 'ok' | 'warn' | 'bad' | 'info' | 'plain';

interface BadgeProps {
  readonly tone: Tone;
  readonly children: string;
  readonly title?: string;
}

/** The sign makes the tone readable without colour. */
export function Badge({ tone, children, title }: BadgeProps) {
  return (
    <span class={`badge badge-${tone}`} title={title}>
      <span aria-hidden="true">{signs[tone]}</span> {children}
    </span>
  );
}

const signs: Readonly<Record<Tone, string>> = { ok: '✓', warn: '!', bad: '✕', info: '…', plain: '·' };

interface StatusBadgeProps {
  /** 0 when no status was sent, 499 when the client disconnected. */
  readonly status: number;
  readonly outcome: string;
}

/** How a request ended. */
export function StatusBadge({ status, outcome }: StatusBadgeProps) {
  const text = status === 0 ? outcome.replace('_', ' ') : `${status} ${outcome.replace('_', ' ')}`;
  return <Badge tone={toneOf(status, outcome)}>{text}</Badge>;
}

export function toneOf(status: number, outcome: string): Tone {
  if (outcome === 'in_progress') return 'info';
  if (outcome === 'completed' && status < 400) return 'ok';
  return outcome === 'failed' || status >= 500 ? 'bad' : 'warn';
}
