"""A person with a browser, for the pages of the provider: enters codes, logs in, and agrees or does not.

    approve('http://…/device?user_code=ABCD-EFGH')      # device flow
    sign_in('http://…/auth?client_id=…')                # follows the redirect to the program that waits on loopback

Nothing is known about the pages but that they have one form each, as pages of this kind do.
"""

import html.parser
import http.cookiejar
import ssl
import urllib.error
import urllib.parse
import urllib.request

PAGES_MAX = 12


class Form(html.parser.HTMLParser):
    """The first form of a page, filled in, and the link of the page that declines."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields, self.decline = None, {}, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == 'form' and self.action is None:
            self.action = attributes.get('action', '')
        elif tag == 'input' and attributes.get('name'):
            # Some pages have a field outside the form, with the form named in it.
            self.fields[attributes['name']] = attributes.get('value', '')
        elif tag == 'button' and attributes.get('name'):
            if attributes.get('value') == 'yes' and attributes['name'] == 'abort':
                self.decline = attributes['name']
            else:
                self.fields[attributes['name']] = attributes.get('value', '')
        elif tag == 'a' and attributes.get('href', '').endswith('/abort'):
            self.decline = attributes['href']


class Browser:
    def __init__(self, ca=None):
        context = ssl.create_default_context(cafile=ca)
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
        )

    def get(self, url, data=None):
        """The address one ends up at, and the page there."""
        body = urllib.parse.urlencode(data).encode() if data is not None else None
        try:
            with self.opener.open(url, body, timeout=20) as answer:
                return answer.url, answer.read().decode('utf-8', 'replace')
        except urllib.error.HTTPError as error:
            return error.url, error.read().decode('utf-8', 'replace')


def walk(url, deny, ca, code=None):
    browser = Browser(ca)
    here, page = browser.get(url)
    for _ in range(PAGES_MAX):
        form = Form(page)
        if form.action is None:
            return here, page
        fields = dict(form.fields)
        # The pages that follow a refusal ask whether one wants to begin again.
        if deny and form.decline == 'abort':
            return browser.get(urllib.parse.urljoin(here, form.action), {**fields, 'abort': 'yes'})
        if deny and form.decline:
            return browser.get(urllib.parse.urljoin(here, form.decline))
        for name, value in (('login', 'alice'), ('password', 'anything'), ('user_code', code)):
            if name in fields and value and not fields[name]:
                fields[name] = value
        here, page = browser.get(urllib.parse.urljoin(here, form.action), fields)
    raise RuntimeError(f'{PAGES_MAX} pages and no end: {here}')


def approve(verification_uri, user_code=None, deny=False, ca=None):
    """Enters a user code and approves it, or does not. Returns the last page."""
    return walk(verification_uri, deny, ca, user_code)[1]


def sign_in(authorization_url, deny=False, ca=None):
    """Signs in and is sent back to the program that asked. Returns where that was."""
    return walk(authorization_url, deny, ca)[0]
