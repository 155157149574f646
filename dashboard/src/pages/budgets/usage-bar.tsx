import { formatShare } from '../../format/numbers.ts';

interface UsageBarProps {
  readonly used: number | null | undefined;
  readonly most: number;
  /** Shown after the used part. */
  readonly reserved?: number | null;
  /** In words, instead of the share. */
  readonly text?: string;
}

/** The used part of a limit. The text beside it says the same. */
export function UsageBar({ used, most, reserved, text }: UsageBarProps) {
  if (used === null || used === undefined) return <span class="limit-unknown">unknown</span>;
  const share = used / most;
  const rest = Math.max(0, 1 - share);
  const tone = share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'ok';
  return (
    <span class="limit-usage">
      <span class="limit-bar" data-tone={tone} aria-hidden="true">
        <span style={{ width: `${100 * Math.min(1, share)}%` }} />
        <span class="limit-bar-reserved" style={{ width: `${100 * Math.min(rest, (reserved ?? 0) / most)}%` }} />
      </span>
      <span>{text ?? formatShare(share)}</span>
    </span>
  );
}
