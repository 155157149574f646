import './fact-list.css';
import type { ComponentChildren } from 'preact';

interface FactProps {
  readonly name: string;
  readonly children: ComponentChildren;
}

/** Names and values below each other. Its children are `Fact`s. */
export function FactList({ children }: { readonly children: ComponentChildren }) {
  return <dl class="fact-list">{children}</dl>;
}

export function Fact({ name, children }: FactProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
