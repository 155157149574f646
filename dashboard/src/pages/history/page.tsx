import './history.css';
import { isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf, route, setQuery } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { chosenRange } from '../../ui/range.ts';
import { RangePicker } from '../../ui/range-picker.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { ActorFilter } from './actor-filter.tsx';
import { ChangeList } from './change-list.tsx';
import { isReadable, useSubjectChoices } from './subject-choices.ts';
import { SubjectFilter } from './subject-filter.tsx';
import { subjectKinds } from './subjects.ts';

/** Entries of one page. */
const PAGE = 25;

export default function HistoryPage() {
  const subject = route.value.query.get('subject') ?? '';
  return (
    <>
      <PageHeader title="History">
        <RangePicker range={chosenRange()} withAny />
      </PageHeader>
      <div class="history-filters">
        <SubjectFilter subject={subject} />
        <ActorFilter />
      </div>
      {subject !== '' || isGlobal.value ? <Changes subject={subject} /> : <OwnSubjects />}
    </>
  );
}

function Changes({ subject }: { readonly subject: string }) {
  const { query } = route.value;
  const range = chosenRange();
  const before = query.get('before') ?? undefined;
  const actor = query.get('actor') ?? undefined;
  const { data, error, isLoading, since, cancel, reload } = useAnswer('/admin/history', {
    ...{ subject: subject === '' ? undefined : subject, limit: PAGE, before, actor },
    ...{ start: range?.from, end: range?.to },
  });
  const last = data?.entries.at(-1)?.position;
  if (error?.status === 404) return <NoHistory subject={subject} />;
  return (
    <>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {isLoading && <Pending since={since} onCancel={cancel} />}
      {data !== undefined && data.entries.length > 0 && (
        <>
          <h2 class="visually-hidden">Changes</h2>
          <ChangeList label="Changes, newest first" changes={data.entries} />
        </>
      )}
      {data?.entries.length === 0 && (
        <EmptyState
          title={
            range === undefined && before === undefined && actor === undefined ? 'No changes yet.' : 'No changes here.'
          }
        >
          <p>Changes through the admin API, by the dashboard or by a program, are listed here.</p>
        </EmptyState>
      )}
      {data !== undefined && (data.has_more || before !== undefined) && (
        <div class="history-pages">
          {before !== undefined && (
            <Button onClick={() => setQuery({ before: undefined }, { push: true })}>Newest</Button>
          )}
          {data.has_more && <Button onClick={() => setQuery({ before: last }, { push: true })}>Older changes</Button>}
        </div>
      )}
    </>
  );
}

function NoHistory({ subject }: { readonly subject: string }) {
  return (
    <EmptyState title="No history.">
      <p>
        <code>
          <Recorded text={subject} />
        </code>{' '}
        was never changed through the API. What only the configuration declares has no history.
      </p>
      {isGlobal.value && (
        <p>
          <a href={hrefOf('/history')}>All changes</a>
        </p>
      )}
    </EmptyState>
  );
}

/** Of an administrator of a subtree: the history of everything is for those of the whole gateway. */
function OwnSubjects() {
  const kinds = subjectKinds.filter(({ isScoped }) => isScoped);
  return (
    <EmptyState title="Choose a key or a path of your subtree.">
      {kinds.map(({ name, title }) => (
        <OwnSubjectsOf key={name} kind={name} title={title} />
      ))}
    </EmptyState>
  );
}

const MOST_LINKS = 30;

function OwnSubjectsOf({ kind, title }: { readonly kind: string; readonly title: string }) {
  const { data } = useSubjectChoices(kind);
  const choices = (data ?? []).filter((choice) => isReadable(kind, choice)).slice(0, MOST_LINKS);
  if (choices.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul class="history-choices">
        {choices.map((choice) => (
          <li key={choice.id}>
            <a href={hrefOf('/history', { subject: `${kind}:${choice.id}` })}>
              <Recorded text={choice.title ?? choice.id} />
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
