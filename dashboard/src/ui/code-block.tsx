import './code-block.css';
import { CopyButton } from './copy-button.tsx';

interface CodeBlockProps {
  readonly text: string;
  readonly label: string;
}

/** Text to copy, as it is. */
export function CodeBlock({ text, label }: CodeBlockProps) {
  return (
    <div class="code-block">
      {/* A region that scrolls must be reachable by keyboard. */}
      <pre role="group" aria-label={label} tabIndex={0}>
        {text}
      </pre>
      <CopyButton text={text} />
    </div>
  );
}
