import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import type { Answer } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Time } from '../../ui/facts.tsx';
import { titleOf } from './change-words.ts';
import { FieldChanges } from './field-changes.tsx';
import type { KeyNames } from './key-names.ts';
import { subjectOf } from './subjects.ts';

export type AdminChange = Answer<'/admin/history'>['entries'][number];

interface ChangeEntryProps {
  readonly change: AdminChange;
  readonly keyNames: KeyNames;
  /** Default true. */
  readonly showSubject?: boolean;
}

/** One change: what, of what, when, by whom, and the fields before and after. */
export function ChangeEntry({ change, keyNames, showSubject = true }: ChangeEntryProps) {
  const { position, at, actor, subject, type, before, after, changed } = change;
  const { kind, id } = subjectOf(subject) ?? {};
  const page = kind !== undefined && id !== undefined && kind.hasPast ? kind.page(id) : undefined;
  return (
    <li class="history-entry">
      <div class="history-head">
        <h3>{titleOf(type, after)}</h3>
        {showSubject && <SubjectLink subject={subject} keyNames={keyNames} />}
        <span class="history-by">
          <Time at={at} /> by <ActorLink actor={actor} keyNames={keyNames} />
        </span>
      </div>
      <FieldChanges before={before} after={after} changed={changed} />
      <div class="history-foot">
        {page !== undefined && (
          <a href={hrefOf(page.path, { ...page.query, as_of: position })}>Show the state at this time</a>
        )}
        <ChangeDetails change={change} />
      </div>
    </li>
  );
}

interface SubjectLinkProps {
  readonly subject: string;
  readonly keyNames: KeyNames;
}

function SubjectLink({ subject, keyNames }: SubjectLinkProps) {
  const { kind, id } = subjectOf(subject) ?? {};
  if (kind === undefined || id === undefined) return <Recorded text={subject} />;
  const { path, query } = kind.page(id);
  const name = kind.name === 'key' ? (keyNames.get(id) ?? shortId(id)) : id;
  return (
    <span class="history-subject">
      {kind.title}{' '}
      <a href={hrefOf(path, query)} title={id}>
        <Recorded text={name} />
      </a>
    </span>
  );
}

function ActorLink({ actor, keyNames }: { readonly actor: string; readonly keyNames: KeyNames }) {
  if (actor === 'master') return <>the master key</>;
  if (!actor.startsWith('key:')) return <>{actor === 'system' ? 'the gateway' : <Recorded text={actor} />}</>;
  const id = actor.slice('key:'.length);
  return (
    <a href={hrefOf(`/keys/${encodeURIComponent(id)}`)} title={`key ${id}`}>
      <Recorded text={keyNames.get(id) ?? `key ${shortId(id)}`} />
    </a>
  );
}

/** Long ids are cut; the title has the whole one. */
function shortId(id: string): string {
  return id.length > 12 ? `${id.slice(0, 8)}…` : id;
}

function ChangeDetails({ change }: { readonly change: AdminChange }) {
  const [isOpen, setOpen] = useState(false);
  const { position, revision, type, user_path, request_id } = change;
  return (
    <details class="history-details" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Details</summary>
      {isOpen && (
        <dl class="history-fields">
          <Fact name="Position">
            <code>{position}</code> <CopyButton text={position} what="position" />
          </Fact>
          <Fact name="Event">
            <code>{type}</code>, revision {revision}
          </Fact>
          {user_path !== null && (
            <Fact name="User path of the actor">
              <code>
                <Recorded text={user_path} />
              </code>
            </Fact>
          )}
          {request_id !== null && (
            <Fact name="Request">
              <code>
                <Recorded text={request_id} />
              </code>{' '}
              <CopyButton text={request_id} what="request id" /> <RecordedRequest id={request_id} />
            </Fact>
          )}
        </dl>
      )}
    </details>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Requests to models are recorded as exchanges, those to the admin API are not. */
function RecordedRequest({ id }: { readonly id: string }) {
  const isOn = access.value?.features['ANALYTICS_ENABLED'] !== 'off';
  const { data } = useAnswer('/admin/audit/log', { id, limit: 1, total: false }, { enabled: isOn });
  const exchange = data?.entries[0]?.id;
  if (exchange === undefined) return null;
  return <a href={hrefOf(`/exchange/${encodeURIComponent(exchange)}`)}>Show the exchange</a>;
}
