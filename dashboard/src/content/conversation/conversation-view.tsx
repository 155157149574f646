import './conversation-view.css';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState, Pending } from '../../ui/states.tsx';
import { compareJson, type JsonChange } from '../diff/compare-json.ts';
import { ChangeBadge, ChangedValue } from '../diff/value-changes.tsx';
import { childCountOf, isContainer, type JsonNode, readJson, scanJson, sourceOf } from '../json/json-document.ts';
import { formatPath } from '../json/json-path.ts';
import { JsonTree } from '../json/json-tree.tsx';
import type { Sliced } from '../sliced.ts';
import { Pieces } from '../text/pieces.tsx';
import { beginningOfText, SafeText } from '../text/safe-text.tsx';
import { useSliced } from '../use-sliced.ts';
import { changesOfPart, removedValues } from './changed-parts.ts';
import { MediaChip } from './media-chip.tsx';
import { readConversation } from './read-conversation.ts';
import type { Conversation, Dialect, NamedNode, Part, PlacedPart, Tool, Turn } from './turn.ts';

interface ConversationViewProps {
  readonly dialect: Dialect;
  /** As the provider received it, or the client sent it. */
  readonly request: string | undefined;
  /** JSON or a stream. */
  readonly answer: string | undefined;
  /** The request before guardrails changed it; what they changed is marked. */
  readonly original?: string | undefined;
}

interface Read {
  readonly conversation: Conversation;
  readonly changes: readonly JsonChange[];
}

/** A recorded exchange as a conversation. */
export function ConversationView({ dialect, request, answer, original }: ConversationViewProps) {
  const work = useSliced(
    () => readWithChanges({ dialect, request, answer, original }),
    [dialect, request, answer, original],
  );
  if (work.state === 'working') return <Pending since={work.since}>Reading</Pending>;
  if (work.state === 'failed') return <EmptyState title={`The conversation could not be read: ${work.message}`} />;
  return <Turns {...work.value} />;
}

function* readWithChanges({ dialect, request, answer, original }: ConversationViewProps): Sliced<Read> {
  const conversation = yield* readConversation({ dialect, request, answer });
  if (original === undefined || request === undefined || original === request) return { conversation, changes: [] };
  const comparison = yield* compareJson(yield* scanJson(original), yield* scanJson(request));
  if (comparison !== undefined) return { conversation, changes: comparison.changes };
  const problems = [...conversation.problems, 'The request is too long to mark what guardrails changed.'];
  return { conversation: { ...conversation, problems }, changes: [] };
}

const turnsPerStep = 60;
const partsPerStep = 60;

/** The turns of a conversation, the newest ones of a long one first to be seen. */
export function Turns({ conversation, changes }: Read) {
  const { turns, tools, settings, answer, problems } = conversation;
  const [shown, setShown] = useState(turnsPerStep);
  const removed = removedValues(changes);
  const first = Math.max(0, turns.length - shown);
  return (
    <div class="conversation">
      {problems.map((problem, index) => (
        <p key={index} class="conversation-problem">
          <Pieces text={problem} />
        </p>
      ))}
      <Members title="Settings of the request" members={settings} />
      <Tools tools={tools} />
      {removed.length > 0 && (
        <details class="conversation-fold" open>
          <summary>Removed by guardrails ({formatCount(removed.length)})</summary>
          <ChangeList changes={removed} />
        </details>
      )}
      {turns.length === 0 && <EmptyState title="No messages are recorded." />}
      {first > 0 && (
        <Button onClick={() => setShown(shown + turnsPerStep)}>
          Show {formatCount(Math.min(turnsPerStep, first))} earlier messages of {formatCount(first)}
        </Button>
      )}
      <ol class="turns" start={first + 1}>
        {turns.slice(first).map((turn, index) => (
          <TurnItem key={first + index} turn={turn} changes={changes} />
        ))}
      </ol>
      <Members title="Other members of the answer" members={answer} />
    </div>
  );
}

function TurnItem({ turn, changes }: { readonly turn: Turn; readonly changes: readonly JsonChange[] }) {
  const { role, name, origin, choice, ending, parts, others } = turn;
  const [shown, setShown] = useState(partsPerStep);
  return (
    <li class="turn" data-role={knownRole(role)} data-origin={origin}>
      <p class="turn-head">
        <strong class="turn-role">
          <Pieces text={beginningOfText(role, 60)} />
        </strong>
        {name !== undefined && <Pieces text={beginningOfText(name, 100)} />}
        {origin === 'answer' && <span class="turn-chip">Answer{choice === undefined ? '' : ` ${choice + 1}`}</span>}
        {ending !== undefined && (
          <span class="turn-chip">
            <Pieces text={beginningOfText(ending, 100)} />
          </span>
        )}
      </p>
      {parts.length === 0 && <p class="turn-empty">No content</p>}
      {parts.slice(0, shown).map((part, index) => (
        <PlacedPartView key={index} placed={part} changes={changes} />
      ))}
      {shown < parts.length && (
        <Button onClick={() => setShown(shown + partsPerStep)}>
          Show more ({formatCount(parts.length - shown)} parts)
        </Button>
      )}
      <Members title="Other members" members={others} />
    </li>
  );
}

function knownRole(role: string): string {
  if (['system', 'developer', 'instructions'].includes(role)) return 'system';
  return ['user', 'assistant', 'tool', 'error'].includes(role) ? role : 'other';
}

function PlacedPartView({ placed, changes }: { readonly placed: PlacedPart; readonly changes: readonly JsonChange[] }) {
  const ofPart = useMemo(() => changesOfPart(placed, changes), [placed, changes]);
  return (
    <div class="part" data-changed={ofPart.length > 0}>
      <PartView part={placed.part} />
      {ofPart.length > 0 && (
        <details class="conversation-fold">
          <summary>Changed by guardrails</summary>
          <ChangeList changes={ofPart} />
        </details>
      )}
    </div>
  );
}

function ChangeList({ changes }: { readonly changes: readonly JsonChange[] }) {
  return (
    <ul class="conversation-changes">
      {changes.slice(0, 50).map((change, index) => (
        <li key={index}>
          <p>
            <ChangeBadge kind={change.kind} />{' '}
            <code>
              <Pieces text={formatPath(change.path.slice(-40))} />
            </code>
          </p>
          <ChangedValue change={change} />
        </li>
      ))}
    </ul>
  );
}

export function PartView({ part }: { readonly part: Part }) {
  switch (part.kind) {
    case 'text':
      return <SafeText text={part.text} placeholders />;
    case 'refusal':
      return (
        <div class="part-refusal">
          <span class="turn-chip">Refusal</span> <SafeText text={part.text} placeholders />
        </div>
      );
    case 'reasoning':
      return (
        <Fold title={`Reasoning (${formatCount(part.text.length)} characters)`}>
          <SafeText text={part.text} placeholders />
        </Fold>
      );
    case 'hidden reasoning':
      return <p class="turn-chip">Encrypted or signed reasoning, {formatCount(part.characters)} characters</p>;
    case 'tool call':
      return <ToolCall part={part} />;
    case 'tool result':
      return (
        <Fold
          title={
            <>
              {part.failed ? 'Tool result: error' : 'Tool result'}{' '}
              {part.callId !== undefined && <IdText id={part.callId} />}
            </>
          }
        >
          {part.parts.map((one, index) =>
            one.kind === 'text' ? (
              <JsonOrText key={index} text={one.text} label="Result" />
            ) : (
              <PartView key={index} part={one} />
            ),
          )}
        </Fold>
      );
    case 'image':
    case 'audio':
    case 'file':
      return <MediaChip kind={part.kind} media={part.media} name={part.name} transcript={part.transcript} />;
    case 'json':
      return <Json label={part.label} node={part.node} />;
  }
}

function ToolCall({ part }: { readonly part: Extract<Part, { kind: 'tool call' }> }) {
  return (
    <Fold
      title={
        <>
          Tool call{' '}
          <code>
            <Pieces text={beginningOfText(part.name, 120)} />
          </code>{' '}
          {part.id !== undefined && <IdText id={part.id} />}
        </>
      }
    >
      <JsonOrText text={part.arguments} label="Arguments" />
    </Fold>
  );
}

function IdText({ id }: { readonly id: string }) {
  return (
    <code class="turn-id">
      <Pieces text={beginningOfText(id, 80)} />
    </code>
  );
}

/** Longer texts are not read as JSON here: that would happen within one task. */
const MAX_INLINE_JSON = 500_000;

/** Arguments and results of a tool are texts that usually are JSON. */
function JsonOrText({ text, label }: { readonly text: string; readonly label: string }) {
  const document = useMemo(() => (text.length > MAX_INLINE_JSON ? undefined : readJson(text)), [text]);
  if (
    document === undefined ||
    document.count === 0 ||
    document.problem !== undefined ||
    !isContainer({ document, index: 0 })
  ) {
    return <SafeText text={text} look="code" placeholders />;
  }
  return <JsonTree document={document} label={label} compact />;
}

/** The content exists only while it is open. */
function Fold({ title, children }: { readonly title: ComponentChildren; readonly children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="conversation-fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && children}
    </details>
  );
}

function Json({ label, node }: { readonly label: string; readonly node: JsonNode }) {
  return (
    <Fold title={<Pieces text={beginningOfText(label, 120)} />}>
      <JsonTree document={node.document} top={node.index} label={label} compact />
    </Fold>
  );
}

const MAX_INLINE = 80;

function Members({ title, members }: { readonly title: string; readonly members: readonly NamedNode[] }) {
  if (members.length === 0) return null;
  return (
    <Fold title={`${title} (${formatCount(members.length)})`}>
      <dl class="conversation-members">
        {members.slice(0, 200).map(({ name, node }, index) => (
          <div key={index}>
            <dt>
              <Pieces text={beginningOfText(name, 120)} />
            </dt>
            <dd>
              <MemberValue name={name} node={node} />
            </dd>
          </div>
        ))}
      </dl>
    </Fold>
  );
}

function MemberValue({ name, node }: { readonly name: string; readonly node: JsonNode }) {
  const { document, index } = node;
  const length = (document.ends[index] ?? 0) - (document.starts[index] ?? 0);
  if (length <= MAX_INLINE && childCountOf(node) === 0) {
    return (
      <code>
        <Pieces text={sourceOf(node)} placeholders />
      </code>
    );
  }
  return isContainer(node) ? (
    <JsonTree document={document} top={index} label={name} compact />
  ) : (
    <SafeText text={sourceOf(node)} look="code" placeholders />
  );
}

function Tools({ tools }: { readonly tools: readonly Tool[] }) {
  if (tools.length === 0) return null;
  return (
    <Fold title={`Tools offered (${formatCount(tools.length)})`}>
      <ul class="conversation-tools">
        {tools.slice(0, 500).map(({ name, description, node }, index) => (
          <li key={index}>
            <Fold
              title={
                <>
                  <code>
                    <Pieces text={beginningOfText(name, 120)} />
                  </code>{' '}
                  <Pieces text={beginningOfText(description, 160)} />
                </>
              }
            >
              <JsonTree document={node.document} top={node.index} label={name} compact />
            </Fold>
          </li>
        ))}
      </ul>
    </Fold>
  );
}
