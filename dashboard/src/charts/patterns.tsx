/** Patterns that are drawn over a colour, so that kinds can be told apart without it. */
import { useId } from 'preact/hooks';

export type Pattern = 'plain' | 'lines' | 'dots' | 'cross';

/** The prefix of the ids of a chart's patterns. */
export function usePatterns(): string {
  return `patterns-${useId()}`;
}

export function Patterns({ of }: { readonly of: string }) {
  return (
    <defs>
      <pattern id={`${of}-lines`} width="5" height="5" patternUnits="userSpaceOnUse">
        <path d="M-1 6L6 -1" class="chart-pattern" />
      </pattern>
      <pattern id={`${of}-cross`} width="5" height="5" patternUnits="userSpaceOnUse">
        <path d="M0 0L5 5M5 0L0 5" class="chart-pattern" />
      </pattern>
      <pattern id={`${of}-dots`} width="5" height="5" patternUnits="userSpaceOnUse">
        <circle cx="2.5" cy="2.5" r="1" class="chart-pattern-dot" />
      </pattern>
    </defs>
  );
}

interface SwatchProps {
  readonly color: string;
  readonly pattern: Pattern;
  readonly patterns: string;
}

/** In a legend. */
export function Swatch({ color, pattern, patterns }: SwatchProps) {
  return (
    <svg width="14" height="14" aria-hidden="true" class="chart-swatch">
      <rect width="14" height="14" rx="2" style={{ fill: color }} />
      {pattern !== 'plain' && <rect width="14" height="14" rx="2" fill={`url(#${patterns}-${pattern})`} />}
    </svg>
  );
}
