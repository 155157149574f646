import type { ComponentChildren } from 'preact';
import { hrefOf } from '../../app/router.ts';
import { formatCompact, formatCount, formatDuration, formatMoney, formatShare } from '../../format/numbers.ts';
import { type Change, differenceOfParts, relativeChange } from './changes.ts';
import { auditHref, type Overview } from './overview-links.ts';

/** The figures of the range, each with its change and a link. */
export function KeyFigures({ overview }: { readonly overview: Overview }) {
  const { summary: now, previous_summary: before } = overview;
  const range = { from: overview.from, to: overview.to };
  const duration = (value: number | null) => (value === null ? '–' : formatDuration(value));
  const hits = now.cache_hits_exact + now.cache_hits_semantic;
  const promptShare = now.input_tokens === 0 ? 0 : now.cached_input_tokens / now.input_tokens;
  return (
    <ul class="key-figures" aria-label="Figures of the time range">
      <Figure
        title="Requests"
        value={formatCompact(now.requests)}
        exact={formatCount(now.requests)}
        href={auditHref(range)}
        change={relativeChange(now.requests, before.requests)}
      >
        {formatCount(now.requests)} in total
      </Figure>
      <Figure
        title="Success rate"
        value={now.success_rate === null ? '–' : formatShare(now.success_rate)}
        href={auditHref(range, { status_class: ['4xx', '5xx', 'other'] })}
        change={differenceOfParts(now.success_rate, before.success_rate)}
        isOfParts
      >
        {formatCount(now.status_4xx)} with 4xx, {formatCount(now.status_5xx)} with 5xx
      </Figure>
      <Figure
        title="Duration, p50 and p95"
        value={`${duration(now.p50_ms)} · ${duration(now.p95_ms)}`}
        href={auditHref(range, now.p95_ms === null ? {} : { min_duration_ms: Math.floor(now.p95_ms) })}
        change={relativeChange(now.p95_ms, before.p95_ms)}
      >
        First byte {duration(now.first_byte_p50_ms)} · {duration(now.first_byte_p95_ms)}
      </Figure>
      <Figure
        title="Tokens"
        value={formatCompact(now.total_tokens)}
        exact={formatCount(now.total_tokens)}
        href={hrefOf('/usage', { ...range, measure: 'tokens' })}
        change={relativeChange(now.total_tokens, before.total_tokens)}
      >
        {formatCompact(now.input_tokens)} in, {formatCompact(now.output_tokens)} out; prompt cache{' '}
        {formatShare(promptShare)}
      </Figure>
      <Figure
        title="Cost"
        value={now.total_cost === null ? 'unknown' : formatMoney(now.total_cost)}
        href={hrefOf('/usage', { ...range, measure: 'cost' })}
        change={relativeChange(now.total_cost, before.total_cost)}
      >
        {now.unpriced_requests === 0
          ? 'The price of every request is known'
          : `${formatCount(now.unpriced_requests)} more requests of unknown cost`}
      </Figure>
      <Figure
        title="Response cache"
        value={`${formatCompact(hits)} ${hits === 1 ? 'hit' : 'hits'}`}
        exact={formatCount(hits)}
        href={auditHref(range, { cache_type: ['exact', 'semantic'] })}
        change={relativeChange(hits, before.cache_hits_exact + before.cache_hits_semantic)}
      >
        {formatCount(now.cache_hits_exact)} exact, {formatCount(now.cache_hits_semantic)} semantic; saved{' '}
        {now.saved_cost === null ? 'an unknown amount' : formatMoney(now.saved_cost)}
      </Figure>
    </ul>
  );
}

interface FigureProps {
  readonly title: string;
  readonly value: string;
  readonly exact?: string;
  readonly href: string;
  readonly change: Change | undefined;
  readonly isOfParts?: boolean;
  readonly children: ComponentChildren;
}

function Figure({ title, value, exact, href, change, isOfParts = false, children }: FigureProps) {
  return (
    <li class="key-figure">
      <a href={href}>
        <span class="key-figure-title">{title}</span>
        <span class="key-figure-value" title={exact}>
          {value}
        </span>
      </a>
      <span class="key-figure-change">
        {change === undefined ? 'No figure of the period before' : <ChangeText change={change} isOfParts={isOfParts} />}
      </span>
      <span class="key-figure-more">{children}</span>
    </li>
  );
}

function ChangeText({ change: { sign, by }, isOfParts }: { readonly change: Change; readonly isOfParts: boolean }) {
  if (sign === '=') return <>= the period before</>;
  const words = isOfParts
    ? `${(by * 100).toLocaleString(undefined, { maximumFractionDigits: 1 })} points`
    : formatShare(by);
  return (
    <>
      <span aria-hidden="true">{sign}</span> <span class="visually-hidden">{sign === '▲' ? 'up' : 'down'} </span>
      {words} against the period before
    </>
  );
}
