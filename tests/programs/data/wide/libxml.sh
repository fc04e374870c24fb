# libxml and libxslt: parsing, XPath, schemas, a transformation.
{ echo '<list>'; for i in $(seq 1 4000); do echo "<item id=\"i$i\" n=\"$((i * 7919 % 1009))\"><name>name &amp; $i</name><tag/></item>"; done; echo '</list>'; } > in.xml
cat > t.xsl <<'X'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text"/>
<xsl:key name="n" match="item" use="@n"/>
<xsl:template match="/list"><xsl:for-each select="item[generate-id() = generate-id(key('n', @n)[1])]"><xsl:sort select="@n" data-type="number"/><xsl:value-of select="concat(@n, ' ', count(key('n', @n)), '&#10;')"/></xsl:for-each></xsl:template>
</xsl:stylesheet>
X
xsltproc t.xsl in.xml | sha256sum
xmllint --xpath 'count(//item[contains(name, "7")])' in.xml
xmllint --format in.xml | wc -l
xmllint --c14n in.xml | sha256sum
xmllint --noout --stream in.xml && echo well-formed
xmllint --noout broken.xml 2>/dev/null || echo 'refused'
