/** Renders the picture of a machine within a page: it scrolls within its own region. */
import { type Html, html, ownMarkup } from "../html.ts"
import { draw, type Picture, type Shown } from "../pictures/draw.ts"

export const pictureRegion = (picture: Picture, shown: Shown): Html =>
  html`<div class="picture" tabindex="0" role="region" aria-label="${`${shown.title} (scrolls)`}">${ownMarkup(draw(picture, shown))}</div>
`
