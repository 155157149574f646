import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf, route } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { type AuditFilter, mayBeId, queryOfFilter, searchedFor, withValues } from './filter.ts';
import { isOfAnyTime } from './request-query.ts';

/**
 * Clients choose the ids of requests and sessions, so that a searched text may be one: then a link shows its requests.
 * Where an id finds nothing, a link searches for the text.
 */
export function IdHint({ filter }: { readonly filter: AuditFilter }) {
  const text = filter.search?.[0] ?? '';
  const { data, isLoading } = useAnswer(
    '/admin/audit/log',
    { id: text, limit: 1, total: false },
    { enabled: mayBeId(text) },
  );
  const [kind] = data?.found_by ?? [];
  if (isOfAnyTime(filter, route.value.query)) return <p class="audit-hint">Requests of the id at any time:</p>;
  if (!mayBeId(text) || kind === undefined || isLoading) return null;
  const byId = withValues(searchedFor(filter, ''), 'id', [text]);
  return (
    <p class="audit-hint">
      <Recorded text={text} /> is the id of {articles[kind] ?? 'a'} {kind}.{' '}
      <a href={hrefOf(route.value.path, queryOfFilter(byId))}>Show its requests at any time</a>
    </p>
  );
}

const articles: Readonly<Record<string, string>> = { exchange: 'an', item: 'an' };
