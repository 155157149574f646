/** What the request cost, and how that follows from tokens and prices. */
import { Pieces } from '../../../content/text/pieces.tsx';
import { formatCount } from '../../../format/numbers.ts';
import { Money, Time } from '../../../ui/facts.tsx';
import { Panel } from '../../../ui/panel.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import { Badge } from '../../../ui/status-badge.tsx';
import type { ExchangeFacts } from '../record/exchange-facts.ts';
import { membersOf, numberOf, type RecordedEvent, textOf, timeOf } from '../record/recorded-event.ts';
import { dollarsOf } from './totals.ts';

export function CostTab({ facts }: { readonly facts: ExchangeFacts }) {
  if (facts.usage.length === 0) {
    return (
      <EmptyState
        title={facts.end === undefined ? 'Usage is recorded when the request has ended.' : 'No usage is recorded.'}
      />
    );
  }
  return (
    <div class="exchange-stack">
      {facts.usage.map((event) => (
        <UsagePanel key={event.id} event={event} />
      ))}
      {facts.corrections.map((event) => (
        <CorrectionPanel key={event.id} event={event} />
      ))}
    </div>
  );
}

const counts: readonly (readonly [string, string])[] = [
  ['inputTokens', 'Input'],
  ['cachedInputTokens', 'of it read from a prompt cache'],
  ['cacheWriteInputTokens', 'of it written to a prompt cache'],
  ['audioInputTokens', 'of it audio'],
  ['imageInputTokens', 'of it images'],
  ['outputTokens', 'Output'],
  ['reasoningTokens', 'of it reasoning'],
  ['audioOutputTokens', 'of it audio'],
  ['imageOutputTokens', 'of it images'],
  ['totalTokens', 'Total'],
  ['estimatedInputTokens', 'Estimated input'],
  ['estimatedOutputTokens', 'Estimated output'],
];

function UsagePanel({ event }: { readonly event: RecordedEvent }) {
  const { data } = event;
  const attempt = numberOf(data, 'failedAttempt');
  const isEstimated = data['estimated'] === true;
  const rows = counts.flatMap(([name, title]) => {
    const count = numberOf(data, name);
    return count === undefined || (count === 0 && title.startsWith('of it')) ? [] : [{ name, title, count }];
  });
  const title = attempt === undefined ? 'Usage' : `Usage of the failed attempt ${attempt}`;
  return (
    <Panel
      title={title}
      actions={
        <span class="exchange-badges">
          {isEstimated && <Badge tone="warn">estimated</Badge>}
          {data['partial'] === true && <Badge tone="warn">incomplete answer</Badge>}
          {textOf(data, 'source') === 'unknown' && <Badge tone="warn">not reported</Badge>}
          {textOf(data, 'cacheType') !== undefined && <Badge tone="ok">from the response cache</Badge>}
        </span>
      }
    >
      <div class="exchange-columns">
        <table class="exchange-table">
          <caption>Tokens</caption>
          <tbody>
            {rows.length === 0 && (
              <tr>
                <td>The provider reported none.</td>
              </tr>
            )}
            {rows.map((row) => (
              <tr key={row.name}>
                <th scope="row">{row.title}</th>
                <td data-align="end">{formatCount(row.count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <Costs event={event} />
      </div>
    </Panel>
  );
}

function Costs({ event }: { readonly event: RecordedEvent }) {
  const { data } = event;
  const rates = Object.entries(membersOf(data, 'price') ?? {});
  const caveat = textOf(data, 'caveat');
  const saved = textOf(data, 'savedCost');
  return (
    <table class="exchange-table">
      <caption>Cost</caption>
      <tbody>
        <CostRow title="Input" text={textOf(data, 'inputCost')} />
        <CostRow title="Output" text={textOf(data, 'outputCost')} />
        <CostRow title="Total" text={textOf(data, 'totalCost')} />
        {saved !== undefined && <CostRow title="Saved by the cache" text={saved} />}
        <tr>
          <th scope="row">Source of the price</th>
          <td>
            <Pieces text={textOf(data, 'priceSource') ?? 'there is no price'} />
          </td>
        </tr>
        <tr>
          <th scope="row">Recorded</th>
          <td>
            <Time at={timeOf(event)} />
          </td>
        </tr>
        {rates.map(([name, rate]) => (
          <tr key={name}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td data-align="end">{String(rate)} US dollars</td>
          </tr>
        ))}
        {caveat !== undefined && (
          <tr>
            <th scope="row">Note</th>
            <td>
              <Pieces text={caveat} />
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function CostRow({ title, text }: { readonly title: string; readonly text: string | undefined }) {
  return (
    <tr>
      <th scope="row">{title}</th>
      <td data-align="end">
        <Money dollars={dollarsOf(text)} />
      </td>
    </tr>
  );
}

function CorrectionPanel({ event }: { readonly event: RecordedEvent }) {
  const { data, actor } = event;
  return (
    <Panel title="Corrected cost">
      <table class="exchange-table">
        <tbody>
          <tr>
            <th scope="row">Corrected</th>
            <td>
              <Time at={timeOf(event)} /> by {actor}
            </td>
          </tr>
          <CostRow title="Before" text={textOf(data, 'previousTotalCost')} />
          <CostRow title="Now" text={textOf(data, 'totalCost')} />
          <tr>
            <th scope="row">Source of the price</th>
            <td>
              <Pieces text={textOf(data, 'priceSource') ?? 'there is no price'} />
            </td>
          </tr>
        </tbody>
      </table>
    </Panel>
  );
}
