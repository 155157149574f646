/** Number of requests for screen readers: said now and then, not with every row. */
import { useEffect, useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';

const EVERY_MS = 10_000;

/** @param count of all requests so far */
export function useAnnouncedCount(count: () => number): string {
  const [text, setText] = useState('');
  useEffect(() => {
    let before = count();
    const timer = setInterval(() => {
      const now = count();
      if (now > before) setText(`${formatCount(now - before)} new ${now - before === 1 ? 'request' : 'requests'}.`);
      before = now;
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return text;
}
