import { formatCompact, formatCount, formatMoney, formatShare } from '../../format/numbers.ts';
import { relativeChange } from '../overview/changes.ts';
import type { Usage } from './usage-rows.ts';

/** The sums of the range, beside those of the time before. */
export function UsageSums({ sums, before }: { readonly sums: Usage; readonly before: Usage | undefined }) {
  const money = (dollars: number | null) => (dollars === null ? 'unknown' : formatMoney(dollars));
  const change = (of: 'cost' | 'tokens' | 'requests' | 'saved') => {
    const by = relativeChange(sums[of], before?.[of]);
    return by === undefined ? '' : ` ${by.sign} ${formatShare(by.by)}`;
  };
  return (
    <dl class="usage-sums">
      <div>
        <dt>Cost</dt>
        <dd>
          {money(sums.cost)}
          <small>
            {before === undefined ? '' : `before: ${money(before.cost)}${change('cost')}`}
            {sums.unpriced > 0 ? ` · ${formatCount(sums.unpriced)} more requests of unknown cost` : ''}
          </small>
        </dd>
      </div>
      <div>
        <dt>Tokens</dt>
        <dd>
          <span title={formatCount(sums.tokens)}>{formatCompact(sums.tokens)}</span>
          <small>
            {formatCompact(sums.input)} in, {formatCompact(sums.output)} out
            {before === undefined ? '' : ` · before: ${formatCompact(before.tokens)}${change('tokens')}`}
          </small>
        </dd>
      </div>
      <div>
        <dt>Requests to providers</dt>
        <dd>
          {formatCount(sums.requests)}
          <small>{before === undefined ? '' : `before: ${formatCount(before.requests)}${change('requests')}`}</small>
        </dd>
      </div>
      <div>
        <dt>Saved by the response cache</dt>
        <dd>
          {money(sums.saved)}
          <small>
            {formatCount(sums.cacheHits)} hits
            {before === undefined ? '' : ` · before: ${money(before.saved)}${change('saved')}`}
          </small>
        </dd>
      </div>
    </dl>
  );
}
