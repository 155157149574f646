import { useEffect, useState } from 'preact/hooks';
import { Button } from './button.tsx';

interface CopyButtonProps {
  /** A function when the text is long. */
  readonly text: string | (() => string);
  /** What is copied, where several buttons are near each other: `Copy <what>`. */
  readonly what?: string;
}

export function CopyButton({ text, what }: CopyButtonProps) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  useEffect(() => {
    if (state === 'idle') return undefined;
    const timer = setTimeout(() => setState('idle'), 2000);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => {
    setState((await copyText(typeof text === 'string' ? text : text())) ? 'copied' : 'failed');
  };
  return (
    <Button onClick={copy}>
      <span aria-live="polite">
        {state === 'copied'
          ? 'Copied'
          : state === 'failed'
            ? 'Not copied'
            : `Copy${what === undefined ? '' : ` ${what}`}`}
      </span>
    </Button>
  );
}

/** @returns whether it was copied. The clipboard API exists only on HTTPS and localhost. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'visually-hidden';
    const parent = document.querySelector('dialog[open]') ?? document.body;
    parent.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}
