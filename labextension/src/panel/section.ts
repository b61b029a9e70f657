import { element, setText, show } from '../dom.js';

let made = 0;

/** A part of the panel, under a heading that names it. */
export class Section {
  readonly node = element('section', 'ec2-Section');
  protected readonly heading = element('h2', 'ec2-Section-title');

  constructor(title: string) {
    made += 1;
    this.heading.id = `ec2-section-${made}`;
    this.node.setAttribute('aria-labelledby', this.heading.id);
    this.node.append(this.heading);
    setText(this.heading, title);
  }

  protected setShown(shown: boolean): void {
    show(this.node, shown);
  }
}
