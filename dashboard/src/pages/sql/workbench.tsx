import { useEffect, useRef, useState } from 'preact/hooks';
import { hrefOf, route, setQuery } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { Pending } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { draft } from './draft.ts';
import { Editor, type EditorControl } from './editor.tsx';
import { QueryError } from './query-error.tsx';
import { OwnQueries, QuestionList } from './query-lists.tsx';
import { fragmentOf, queryIn } from './query-text.ts';
import { ResultView } from './result-view.tsx';
import { SchemaTree } from './schema-tree.tsx';
import { useQuery } from './use-query.ts';

const tabs = [
  { name: 'questions', title: 'Questions' },
  { name: 'tables', title: 'Tables' },
  { name: 'own', title: 'My queries' },
] as const;

const limits = ['100', '1000', '10000', '100000'] as const;
type Limit = (typeof limits)[number];

/** The editor with what helps to write a query, and its result. */
export function Workbench() {
  const state = useQuery();
  const [limit, setLimit] = useState<Limit>('1000');
  const control = useRef<EditorControl | undefined>(undefined);
  useQueryOfAddress();
  const query = draft.value;
  const run = () => {
    if (query.trim() === '') return;
    const { pathname, search } = location;
    // In the fragment, which browsers send to no server.
    history.replaceState(null, '', pathname + search + fragmentOf(query));
    state.run(query, Number(limit));
  };
  const choose = (text: string) => {
    draft.value = text;
    control.current?.goTo(0);
  };
  const shown = tabs.find(({ name }) => name === route.value.query.get('tab'))?.name ?? 'questions';
  return (
    <div class="sql-page">
      <div class="sql-main">
        <Editor
          value={query}
          onInput={(text) => {
            draft.value = text;
          }}
          onRun={run}
          control={control}
        />
        <div class="sql-actions">
          <Button look="main" onClick={run} disabled={query.trim() === ''} keyShortcut="Control+Enter">
            Run
          </Button>
          <SelectField
            label="Rows"
            hideLabel
            value={limit}
            choices={limits.map((value) => ({ value, title: `at most ${Number(value).toLocaleString('en')} rows` }))}
            onChange={setLimit}
          />
          <LinkButton query={query} />
        </div>
        <p class="sql-note">
          The gateway records every query with its author before it runs:{' '}
          <a href={hrefOf('/history', { subject: 'audit:reads' })}>recorded queries</a>. A query takes at most 30
          seconds.
        </p>
        {state.since !== undefined && (
          <Pending since={state.since} onCancel={state.cancel}>
            Running the query
          </Pending>
        )}
        {state.error !== undefined && state.since === undefined && (
          <QueryError error={state.error} query={state.query} onGoTo={(offset) => control.current?.goTo(offset)} />
        )}
        {state.answer !== undefined && state.since === undefined && (
          <ResultView query={state.query} answer={state.answer} limit={state.limit} />
        )}
      </div>
      <aside class="sql-side" aria-label="Help for queries">
        <Tabs label="Help for queries" tabs={tabs} shown={shown} onShow={(name) => setTab(name)}>
          {shown === 'questions' && <QuestionList onChoose={choose} />}
          {shown === 'tables' && <SchemaTree onInsert={(name) => control.current?.insert(name)} />}
          {shown === 'own' && <OwnQueries onChoose={choose} />}
        </Tabs>
      </aside>
    </div>
  );
}

/** Changing the query of the address removes its fragment, so it is put back. */
function setTab(name: string): void {
  const { hash } = location;
  setQuery({ tab: name === 'questions' ? undefined : name });
  if (hash !== '') history.replaceState(null, '', location.pathname + location.search + hash);
}

/** The query of a link is put into the editor. It does not run by itself: a link must not read data. */
function useQueryOfAddress(): void {
  useEffect(() => {
    const read = () => {
      const given = queryIn(location.hash);
      if (given !== undefined) draft.value = given;
    };
    read();
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
}

function LinkButton({ query }: { readonly query: string }) {
  const fragment = fragmentOf(query);
  if (query.trim() === '') return null;
  if (fragment === '') return <span class="sql-note">Too long for a link.</span>;
  return <CopyButton text={() => new URL(hrefOf('/sql') + fragment, location.href).href} what="link" />;
}
