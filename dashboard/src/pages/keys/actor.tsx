/** Who made a change. */
import { useAnswer } from '../../api/use-answer.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { keyHref } from './keys-address.ts';

/** @param actor `master`, `key:<id>` or another actor of the log */
export function Actor({ actor }: { readonly actor: string }) {
  const { data } = useAnswer('/admin/auth-keys', {}, { enabled: actor.startsWith('key:') });
  if (actor === 'master') return <>the master key</>;
  if (!actor.startsWith('key:')) return <>{actor === 'system' ? 'the gateway' : actor}</>;
  const id = actor.slice('key:'.length);
  const key = data?.find((one) => one.id === id);
  if (key === undefined) return <code>{actor}</code>;
  return (
    <>
      the key{' '}
      <a href={keyHref(id)}>
        “<Pieces text={key.name} />”
      </a>
    </>
  );
}
