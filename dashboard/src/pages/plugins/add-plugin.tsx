import { CodeBlock } from '../../ui/code-block.tsx';
import { Panel } from '../../ui/panel.tsx';

const commands = `chancery plugin new my-plugin      # a plugin with its test
chancery plugin check my-plugin    # loads it as the gateway would, and runs each hook once
PLUGINS_ENABLED=true PLUGINS='[{"path":"./my-plugin"}]' chancery serve`;

/** Plugins are files of the operator: they are loaded at the start, not through the API. */
export function AddPlugin() {
  return (
    <Panel title="Add a plugin">
      <p class="plugin-add">
        A plugin is loaded when the gateway starts: list it under <code>plugins.load</code> in the configuration file,
        or in <code>PLUGINS</code>. Then make a guardrail of it and use the guardrail in a workflow, or select it as the
        strategy of a virtual model. The hooks are described in <code>docs/plugins.md</code>.
      </p>
      <CodeBlock text={commands} label="Commands to add a plugin" />
    </Panel>
  );
}
