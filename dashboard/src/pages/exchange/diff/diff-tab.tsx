/** Two bodies of the request compared: what was sent on, what guardrails changed, what the turn before was. */

import { getAnswer } from '../../../api/client.ts';
import { useAnswer, useLoaded } from '../../../api/use-answer.ts';
import { route, setQuery } from '../../../app/router.ts';
import { DiffView } from '../../../content/diff/diff-view.tsx';
import { SelectField } from '../../../ui/fields.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import { noBody } from '../conversation-tab.tsx';
import { LoadedView } from '../loaded-view.tsx';
import { whyNoBody } from '../provider-request-view.tsx';
import { type ExchangeFacts, runsOf } from '../record/exchange-facts.ts';
import { bodyOf, requestBody } from '../record/recorded-bodies.ts';
import type { RecordedEvent } from '../record/recorded-event.ts';
import { useProviderRequest } from '../record/use-provider-request.ts';
import { readWhole, useWholeBody } from '../record/use-whole-body.ts';
import { comparisonsOf, previousTurn, type Side } from './comparisons.ts';

interface DiffTabProps {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly facts: ExchangeFacts;
}

export function DiffTab({ id, events, facts }: DiffTabProps) {
  const chain = useAnswer('/admin/audit/chain', { log_id: id, limit: 100 });
  const previous = previousTurn(chain.data?.edges ?? [], id);
  const comparisons = comparisonsOf(events, facts, previous);
  const wanted = route.value.query.get('compare') ?? '';
  const shown = comparisons.find(({ name }) => name === wanted) ?? comparisons[0];
  if (shown === undefined) {
    return (
      <EmptyState title="There is nothing to compare: no provider was called and no guardrail changed the request." />
    );
  }
  return (
    <div class="exchange-stack">
      <SelectField
        label="Compare"
        value={shown.name}
        choices={comparisons.map(({ name, title }) => ({ value: name, title }))}
        onChange={(name) => setQuery({ compare: name })}
      />
      {shown.name.startsWith('guardrails') && <EditingGuardrails facts={facts} />}
      <SideText key={`before ${shown.name}`} id={id} facts={facts} side={shown.before}>
        {(before) => (
          <SideText key={`after ${shown.name}`} id={id} facts={facts} side={shown.after}>
            {(after) => (
              <DiffView before={before} after={after} beforeTitle={shown.before.title} afterTitle={shown.after.title} />
            )}
          </SideText>
        )}
      </SideText>
    </div>
  );
}

/** The record has the request after all guardrails of the phase, and for each of them whether it changed something. */
function EditingGuardrails({ facts }: { readonly facts: ExchangeFacts }) {
  const edited = facts.guardrails.flatMap((event) => runsOf(event).filter((run) => run.edited));
  if (edited.length === 0) return null;
  return (
    <p class="exchange-muted">
      Changed by{' '}
      {edited
        .map(({ guardrail, findings }) => guardrail + (findings.length === 0 ? '' : ` (${findings.join(', ')})`))
        .join(', then ')}
      .
    </p>
  );
}

interface SideTextProps {
  readonly id: string;
  readonly facts: ExchangeFacts;
  readonly side: Side;
  readonly children: (text: string) => preact.ComponentChildren;
}

function SideText({ id, facts, side, children }: SideTextProps) {
  const recorded = useWholeBody(id, side.kind === 'recorded' ? side.body : undefined);
  const provider = useProviderRequest(id, side.kind === 'provider' ? side.attempt : undefined);
  const turn = useRequestOfTurn(side.kind === 'turn' ? side.exchange : undefined);
  const missing = <EmptyState title={`The ${side.title}: ${noBody(facts)}`} />;
  if (side.kind === 'provider') {
    return (
      <LoadedView loaded={provider} nothing={missing}>
        {(data) => (data.body?.text === undefined ? <EmptyState title={whyNoBody(data)} /> : children(data.body.text))}
      </LoadedView>
    );
  }
  return (
    <LoadedView loaded={side.kind === 'turn' ? turn : recorded} nothing={missing}>
      {(data) => (data.text === undefined ? missing : children(data.text))}
    </LoadedView>
  );
}

function useRequestOfTurn(exchange: string | undefined) {
  return useLoaded(async (signal) => {
    if (exchange === undefined) return undefined;
    const { events } = await getAnswer('/admin/audit/events', { query: { log_id: exchange, limit: 1 }, signal });
    const body = requestBody(events as readonly RecordedEvent[]) ?? bodyOf(undefined);
    return body === undefined ? undefined : readWhole(exchange, body, signal);
  }, exchange ?? 'none');
}
